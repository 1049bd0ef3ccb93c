return {candidates=function() return {} end, hint=function() end, from_text=function() end}
