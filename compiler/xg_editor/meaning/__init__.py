"""The meaning of a place in a file, for editors.

Everything here is computed from trees and typed graphs, also where parts of them are missing
because the file is being typed; nothing is read and nothing is kept.
"""
