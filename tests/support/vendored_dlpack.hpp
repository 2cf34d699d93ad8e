// A DLPack header under another name, as some projects ship it, and with the minor version SUPPORT_DLPACK_MINOR if that
// is defined.
#pragma once

#include <dlpack/dlpack.h>

#define SUPPORT_VENDORED_DLPACK
#if defined(SUPPORT_DLPACK_MINOR)
#undef DLPACK_MINOR_VERSION
#define DLPACK_MINOR_VERSION SUPPORT_DLPACK_MINOR
#endif
