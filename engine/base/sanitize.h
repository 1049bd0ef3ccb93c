// Which sanitizer this build has. With TYCHO_PLAIN_MEMORY every block comes from the plain heap, so
// that AddressSanitizer sees overflows and use after free.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define TYCHO_PLAIN_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TYCHO_PLAIN_MEMORY 1
#endif
#endif
#ifndef TYCHO_PLAIN_MEMORY
#define TYCHO_PLAIN_MEMORY 0
#endif
