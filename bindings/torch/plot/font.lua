-- A font of 5 x 7 dots for pictures: the printable ASCII characters. Each character is seven rows
-- from the top, a row is one digit in base 32 whose highest bit is the left dot.
local rows = [[
0000000 4444404 aaa0000 aavavaa 4fke5u4 op248j3 cik8lid 4440000 2488842 8422248 04lel40 044v440 0000c48 000v000
00000cc 01248g0 ehjlphe 4c4444e eh1248v v2421he 26aiv22 vgu11he 68guhhe v124888 ehhehhe ehhf12c 0cc0cc0 0cc0c48
248g842 00v0v00 8421248 eh12404 eh1dlle ehhvhhh uhhuhhu ehggghe sihhhis vgguggv vgguggg ehgnhhf hhhvhhh e44444e
72222ic hikokih ggggggv hrllhhh hhpljhh ehhhhhe uhhuggg ehhhlid uhhukih fgge11u v444444 hhhhhhe hhhhha4 hhhllla
hha4ahh hhha444 v1248gv e88888e 0g84210 e22222e 4ah0000 000000v 8420000 00e1fhf ggmphhu 00egghe 11djhhf 00ehvge
698s888 0fhhf1e ggmphhh 40c444e 20622ic ggikoki c44444e 00qllhh 00mphhh 00ehhhe 00uhugg 00djf11 00mpggg 00ege1u
88s8896 00hhhjd 00hhha4 00hhlla 00ha4ah 00hhf1e 00v248v 2448442 4444444 8442448 008l200]]

local font, code = {}, 32
for glyph in rows:gmatch "%S+" do
  local list = {}
  for i = 1, 7 do list[i] = tonumber(glyph:sub(i, i), 32) end
  font[code], code = list, code + 1
end
return font
