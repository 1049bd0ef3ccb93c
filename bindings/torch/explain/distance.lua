-- The number of edits that turn text a into b, neighbours swapped counting as one (Damerau); more than `most` when it is
-- more. For "did you mean" everywhere in Lua; in C++ because a thousand names are compared where one is wrong.
return torch._edits
