// The end of a statement: a line end, unless what follows goes on with the statement.
//
// The parser asks for one only where a statement may end. So inside brackets, and behind what
// begins something, a line end is a blank.

#include "tree_sitter/parser.h"

#include <stdbool.h>
#include <string.h>

enum TokenType { NEWLINE, ERROR_SENTINEL };

void *tree_sitter_xg_external_scanner_create(void) { return NULL; }
void tree_sitter_xg_external_scanner_destroy(void *payload) { (void)payload; }
unsigned tree_sitter_xg_external_scanner_serialize(void *payload, char *buffer) {
  (void)payload;
  (void)buffer;
  return 0;
}
void tree_sitter_xg_external_scanner_deserialize(void *payload, const char *buffer, unsigned length) {
  (void)payload;
  (void)buffer;
  (void)length;
}

static bool is_letter(int32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Whether the next word is one with which a statement goes on.
static bool goes_on(TSLexer *lexer) {
  static const char *const WORDS[] = {"where", "wrong", "over", "if", "as"};
  char word[16];
  unsigned length = 0;
  while (is_letter(lexer->lookahead) && length < sizeof word - 1) {
    word[length++] = (char)lexer->lookahead;
    lexer->advance(lexer, false);
  }
  word[length] = 0;
  bool ends = !is_letter(lexer->lookahead) && lexer->lookahead != '_' &&
              !(lexer->lookahead >= '0' && lexer->lookahead <= '9') && lexer->lookahead < 128;
  for (unsigned i = 0; ends && i < sizeof WORDS / sizeof *WORDS; i++) {
    if (strcmp(word, WORDS[i]) == 0) return true;
  }
  return false;
}

bool tree_sitter_xg_external_scanner_scan(void *payload, TSLexer *lexer, const bool *valid) {
  (void)payload;
  if (valid[ERROR_SENTINEL] || !valid[NEWLINE]) return false;
  while (lexer->lookahead == ' ' || lexer->lookahead == '\t' || lexer->lookahead == '\r') {
    lexer->advance(lexer, true);
  }
  if (lexer->lookahead != '\n') return false;
  lexer->mark_end(lexer);
  for (;;) {  // over empty lines and comments to what follows
    int32_t c = lexer->lookahead;
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      lexer->advance(lexer, true);
    } else if (c == '#') {
      while (lexer->lookahead != '\n' && !lexer->eof(lexer)) lexer->advance(lexer, true);
    } else {
      break;
    }
  }
  if (lexer->eof(lexer)) return false;
  lexer->result_symbol = NEWLINE;
  switch (lexer->lookahead) {
    case '{':
    case '}':
    case ':':
    case '|':
    case '<':
    case 0xb1:  // ±
      return false;
    case '-':
      lexer->advance(lexer, true);
      return lexer->lookahead != '>';
    case '+':
      lexer->advance(lexer, true);
      return lexer->lookahead != '/';
    default:
      return !goes_on(lexer);
  }
}
