-- Lessons as notebooks: what is written is a notebook, and its cells compile.
local json = require "torch.json"
local find = require "shell.lesson.find"
local notebook = require "shell.lesson.notebook"

test("every lesson makes a notebook whose cells are the lesson's code", function()
  local lessons = find.all()
  check.yes(#lessons > 0)
  for _, head in ipairs(lessons) do
    local lesson = find.lesson(head.name)
    local book = json.read(notebook.text(lesson), lesson.name)
    check.equal(book.nbformat, 4)
    check.equal(book.metadata.kernelspec.name, "tycho")
    local seen, code = {}, 0
    for _, cell in ipairs(book.cells) do
      check.no(seen[cell.id], "ids differ")
      seen[cell.id] = true
      if cell.cell_type == "code" then
        code = code + 1
        check.yes(cell.source:find "^%%solved" or load(cell.source) or load("return " .. cell.source), lesson.name .. ": " .. cell.source)
      else
        check.yes(cell.source:find "%S")
      end
    end
    check.yes(code >= #lesson.steps, lesson.name)
  end
end)

test("%solved checks a function as the lesson does", function()
  local function solved(code) return check.tycho({"-i", "--clean"}, {stdin = code .. "\n%solved broadcasting 7\n"}).out end
  check.contains(solved "1", "there is no function table_of")
  check.contains(solved "function table_of(n) return torch.zeros(n, n) end", "not yet: table_of(")
  check.contains(solved "function table_of(n) local a = torch.arange(n) + 1 return a:view(n, 1) * a end", "right, for n = 1 to 8")
end)

test("a lesson that is not there is named", function()
  local file <close> = assert(io.popen(("%s learn --notebook nothing 2>&1; echo $?"):format(os.getenv "TYCHO"))) --[[@as file*]]
  local said = file:read "a"
  check.yes(said:find 'no lesson "nothing"' and said:find "1\n$", said)
end)
