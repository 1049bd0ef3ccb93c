-- Runs the conformance vectors through the binding:
--   tycho tests/conformance/run.lua [PATH] [--only GROUP[/OP],...] [--skip GROUP,...] [--jobs N]
--     [--device NAME] [--list-missing] [--json FILE]
-- PATH is a folder or an archive of vectors (vectors.tar.xz beside this file when absent). Prints a table per group and
-- op and ends with `N passed, N failed, N skipped`; the status is 0 only when nothing failed.
local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/?.lua;" .. package.path
require("reader").main(here, arg)
