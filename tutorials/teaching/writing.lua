--# title   Writing a lesson
--# see     tensor

--# say     A lesson is a plain Lua file. Its comments that begin with `--#` and a tag are the text, the
--#         questions and the tasks; the code between them is shown and run. Here is a whole one, of five
--#         lines:
text = table.concat({
  "--# title   Rows",
  "--# say     A row of three numbers.",
  "x = torch.tensor{5, 6, 7}",
  "--# predict x[2]:item() --> 6",
  "--# hint    Positions count from 1.",
}, "\n")
print(text)
--# play    Saved as rows.lua, it would begin with `tycho learn rows.lua`. Enter goes on.

--# say     This function reads a lesson as the program does, and gives its entries, and what is wrong in it.
function read(text) return require("shell.lesson.parse").lesson(text, "rows.lua") end
lesson, problems = read(text)
--# predict #lesson.steps --> 1
--# wrong   5: These are the lines. An entry is what is shown at a time; it begins with `say`.
--# wrong   2: The title is no entry.
--# hint    An entry begins with `say`.
--# why     One entry: a text, its code, and one question.

--# say     An entry has one piece of code before its question, and may have one behind it. The answer of
--#         `predict` stands behind the arrow: numbers, a shape, a dtype, `true`, `false`, or `error`. It is
--#         not believed: `tycho --check rows.lua` runs the code and compares.
--# predict lesson.steps[1].question.hints[1] == "Positions count from 1." --> true
--# wrong   false: Look at the fifth line.
--# hint    The hint of the first entry's question.

--# say     One idea per entry, and sizes that can be worked out in the head: that is the whole art. The
--#         question comes before the code that would give the answer away, for who has to say first what
--#         will be remembers it. What is misspelt is found with its line.
misspelt = text:gsub("hint", "hnit")
lesson, problems = read(misspelt)
--# predict problems[1].line --> 5
--# hint    Count the lines of the text. In which is the hint?
print(problems[1].message)

--# say     Wrong answers are worth more than right ones: each tells what somebody thought. `--# wrong
--#         ANSWER: REMARK` answers just that one. For x[2] of 5 6 7, somebody who counts from 0 says 7.
--# task    Write remark(answer, words): the line of a lesson that says `words` to the wrong answer
--#         `answer`; both are texts. One blank stands behind `wrong`, none before the colon, and one behind
--#         it.
--# spec    remark(answer, words) return "--# wrong " .. answer .. ": " .. words
--# try     n in 2..9
--# try     answer = tostring(n)
--# try     words = ("Count again. "):rep(n):sub(1, -2)
--# wrong   function remark(answer, words) return "--# wrong " .. words end: Which answer is it for?
--# wrong   function remark(answer, words) return "--# wrong " .. answer .. words end: A colon and a blank
--#         stand between them.
--# hint    Texts are joined by `..`.
--# hint    It begins with `"--# wrong "`, and ends with the words.
--# answer
function remark(answer, words) return "--# wrong " .. answer .. ": " .. words end
--# why     A remark says where the thought went wrong, not only that it did.
print(remark("7", "Positions count from 1: 7 is x[3]."))

--# say     A task asks for a function or a variable. Its `spec` says what is right, in another way than the
--#         answer does, a loop in place of an operation, say; `try` says on which inputs both are compared.
task = table.concat({
  "--# title   Twice",
  "--# say     Doubling.",
  "--# task    Write twice(x): x [n] doubled.",
  "--# spec    twice(x) return x + x",
  "--# try     n in 1..5",
  "--# try     x = torch.randn(n)",
  "--# wrong   function twice(x) return x ^ 2 end: That is the square.",
  "--# hint    Times what?",
  "--# answer  function twice(x) return x * 2 end",
}, "\n")
lesson, problems = read(task)
--# predict #problems --> 0
--# wrong   1: All is there: a spec, inputs, a hint, an answer.
--# hint    All is there: a spec, inputs, a hint, an answer.

--# say     And without its inputs?
--# predict #select(2, read((task:gsub("%-%-# try[^\n]*\n", "")))) --> 1
--# wrong   2: Both inputs are gone, but that is one thing that is wrong: the task has no try.
--# wrong   0: Then nobody knows what to call twice with.
--# hint    What would twice be called with?
--# why     "the task has no try, and its spec takes arguments", with the line of the task.

--# say     Choose inputs that tell slips apart: sizes that differ and exceed 1 (`n in 2..4`, `m in 5..7`),
--#         since with n = m rows and columns cannot be told apart. And write down the near misses: `wrong`
--#         of a task is code, said to who types just that, and `--check` makes sure that it does not solve
--#         the task.
--# predict #lesson.steps[1].question.wrong --> 1
--# hint    Count the lines with `wrong`.

--# say     What may be used is said by `allow` and `forbid`: `--# forbid  for while repeat` asks for an
--#         answer without loops. Names of torch that a lesson teaches stand in `new`; a name that no
--#         earlier lesson has is found by `--check`. `--# explains SHAPE-2` makes the page of that error
--#         lead to the lesson.
--# predict select(2, read("--# title A\n--# explains SHAPE-2\n--# say B"))[1] == nil --> true
--# ask     Is this a lesson without mistakes: a title, `explains SHAPE-2`, and `say B`? (true or false)
--# wrong   false: An entry without code and without a question is only read.
--# hint    An entry may have no question: it is only read.

--# say     A folder of lessons is a class: `tycho learn --class DIR`. Files sort by name, so `01_rows.lua`
--#         and `02_views.lua` come in this order; the digits do not belong to the names. Or a file
--#         order.txt names them, one a line, after `# TITLE`.
--# predict require("shell.lesson.parse").head("", "02_views.lua").name == "views" --> true
--# ask     Is the lesson in 02_views.lua called `views`? (true or false)
--# wrong   false: Digits in front only sort.
--# hint    The digits do not belong to the name.

--# say     Something real: your own lesson. Write the text of one, as a function of the number that it asks
--#         about.
--# task    Write lesson_on(n): a lesson, as a text: a title, one entry with some words and the code `x =
--#         torch.arange(N)` (N is the number n), the question `x:numel()` with its answer, and a hint. The
--#         lines, with one blank behind each tag, are
--#           --# title Counting
--#           --# say How many?
--#           x = torch.arange(N)
--#           --# predict x:numel() --> N
--#           --# hint N
--# spec    lesson_on(n)
--#         local lines = {"--# title Counting", "--# say How many?", "x = torch.arange(" .. n .. ")",
--#           "--# predict x:numel() --> " .. n, "--# hint " .. n}
--#         return table.concat(lines, "\n")
--# try     n in 1..9
--# wrong   function lesson_on(n) return "--# title Counting\n--# say How many?\nx = torch.arange(N)\n--#
--#         predict x:numel() --> N\n--# hint N" end: N stands for the number n.
--# wrong   function lesson_on(n) return "--# title Counting --# say How many? x = torch.arange(" .. n .. ")
--#         --# predict x:numel() --> " .. n .. " --# hint " .. n end: Each tag begins a line: put "\n"
--#         between them.
--# hint    `table.concat({"..", ".."}, "\n")` makes lines of a table.
--# hint    The third line is `"x = torch.arange(" .. n .. ")"`.
--# answer
function lesson_on(n)
  return table.concat({
    "--# title Counting",
    "--# say How many?",
    "x = torch.arange(" .. n .. ")",
    "--# predict x:numel() --> " .. n,
    "--# hint " .. n,
  }, "\n")
end
--# why     It reads without a mistake. Save it (`io.open("counting.lua",
--#         "w"):write(lesson_on(4)):close()`), look at it with `tycho --check counting.lua`, and give it to
--#         your class with `tycho learn counting.lua`. On paper it is `tycho learn --sheet ./counting.lua
--#         counting.html`, and `tycho learn --report FILE.csv` says who solved what.
print(#select(2, read(lesson_on(4))))
