-- Cases that Tycho answers otherwise on purpose: id -> reason.
return {}
