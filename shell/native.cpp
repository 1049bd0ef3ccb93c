// shell.native: protected calls, what values hold, the terminal, child processes.
#include "shell/native.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <unordered_set>

#include "shell/child.h"
#include "shell/past.h"
