"""What a place in a file means: for editors, and whoever else asks about one place.

Everything here is computed from trees and typed graphs, also where parts of them are missing
because the file is being typed; nothing is read and nothing is kept.
"""
