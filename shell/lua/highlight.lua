-- Colours while typing, for the line editor: a function of the text and the cursor (in C++, for speed).
return require("shell.native").highlight
