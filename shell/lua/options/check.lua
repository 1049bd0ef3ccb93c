-- `tycho --check FILE|DIRECTORY...`: checks lessons.
return function(...) return require("shell.lesson.check").main {...} end
