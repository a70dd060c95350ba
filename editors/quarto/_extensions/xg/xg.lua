-- Draws the fences ```{.xg .figure pass=backward} of a document with `xg build`, for Pandoc and Quarto.
--
-- The metadata `xg-command` names another command than `xg`, as a list or a word.

-- Options of `xg build` that have a value.
local WORDS = { pass = "--pass", block = "--block", plan = "--plan", theme = "--theme" }
local KINDS = { latex = "pdf", beamer = "pdf", context = "pdf", docx = "png", odt = "png", pptx = "png" }
local MIME = { pdf = "application/pdf", png = "image/png", svg = "image/svg+xml" }
local command = { "xg" }

local function fail(block, words)
  error("```{.xg " .. table.concat(block.classes, " .") .. "}: " .. words, 0)
end

local function read_command(meta)
  local given = meta["xg-command"]
  if given == nil then return end
  command = {}
  for word in pandoc.utils.stringify(given):gmatch("%S+") do table.insert(command, word) end
end

local function arguments(block)
  local words = { table.unpack(command, 2) }
  table.insert(words, "build")
  local has_title = false
  for name, value in pairs(block.attributes) do
    if WORDS[name] then
      table.insert(words, WORDS[name])
      table.insert(words, value)
    elseif name == "set" then
      for one in value:gmatch("%S+") do
        table.insert(words, "--set")
        table.insert(words, one)
      end
    elseif name == "title" then
      has_title = true
    elseif name == "legend" then
      table.insert(words, "--legend")
    elseif not ({ file = 1, caption = 1, alt = 1, width = 1, height = 1 })[name] then
      fail(block, name .. " is none of the options pass, block, plan, set, theme, title, legend, file, "
        .. "caption, alt, width, height")
    end
  end
  if not has_title then table.insert(words, "--no-title") end
  return words
end

local function figure(block)
  if block.classes[1] ~= "xg" or block.classes[2] ~= "figure" then return nil end
  local file = block.attributes.file
  if (file ~= nil) == (block.text:match("%S") ~= nil) then
    fail(block, "name a file, or write the diagram inside the fence; not both")
  end
  local kind = KINDS[FORMAT] or "svg"
  local words = arguments(block)
  local bytes = pandoc.system.with_temporary_directory("xg", function(folder)
    local picture = folder .. "/figure." .. kind
    table.insert(words, "-o")
    table.insert(words, picture)
    table.insert(words, file or "-")
    local ran, said = pcall(pandoc.pipe, command[1], words, file and "" or block.text .. "\n")
    if not ran then
      local output = type(said) == "table" and said.output or tostring(said)
      fail(block, output ~= "" and output or "the diagram has an error, said above")
    end
    local handle = assert(io.open(picture, "rb"))
    local read = handle:read("a")
    handle:close()
    return read
  end)
  local name = "xg-" .. pandoc.sha1(bytes) .. "." .. kind
  pandoc.mediabag.insert(name, MIME[kind], bytes)
  local caption = block.attributes.caption or ""
  local alt = block.attributes.alt or caption
  local image = pandoc.Image(caption ~= "" and { pandoc.Str(caption) } or {}, name, caption ~= "" and "fig:" or "")
  image.attributes.alt = alt ~= "" and alt or (block.attributes.pass or "forward") .. " figure"
  image.attributes.width = block.attributes.width
  image.attributes.height = block.attributes.height
  image.identifier = block.identifier
  image.classes = { "xg" }
  return pandoc.Para({ image })
end

return { { Meta = read_command }, { CodeBlock = figure } }
