// ferry: what the compiler can do. The only header that asks it.
#pragma once

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "ferry needs C++20: compile with -std=c++20 or later (GCC 12, Clang 16, or newer)"
#endif
#if !defined(__GNUC__)
#error "ferry needs GCC 12 or Clang 16, or newer: compile with one of them, or keep ferry behind a C interface"
#elif defined(__apple_build_version__)
#if __clang_major__ < 15
#error "ferry needs Clang 16, which Apple calls 15, or newer: update Xcode"
#endif
#elif defined(__clang__)
#if __clang_major__ < 16
#error "ferry needs Clang 16 or newer: choose one, with CMake by CMAKE_CXX_COMPILER"
#endif
#elif __GNUC__ < 12
#error "ferry needs GCC 12 or newer: choose one, with CMake by CMAKE_CXX_COMPILER"
#endif
#if !defined(__LP64__)
#error "ferry needs pointers and longs of 64 bits: compile for a 64-bit Unix, without -m32 or -mx32"
#endif

#include <version>

// A deleted overload that says what to write instead. Compilers print the declaration, so the sentence shows
// everywhere; from C++26 on it is the diagnostic itself. Keep name and sentence on one line.
#if defined(__cpp_deleted_function) && __cpp_deleted_function >= 202403L && __cplusplus > 202302L
#define FERRY_DELETED(cure) = delete (cure)
#else
#define FERRY_DELETED(cure) = delete
#endif

// Error paths stay out of the instruction stream of the paths that succeed.
#define FERRY_COLD [[gnu::cold, gnu::noinline]]

// What holds state for one shared library. Two extension modules may be built with two versions of ferry: without this
// the loader would give both the variables of the one that it loaded first, whose layout may be another.
#define FERRY_HIDDEN [[gnu::visibility("hidden")]]

// What one shared library throws and another catches: libc++ compares the addresses of the types, which
// -fvisibility=hidden would keep apart.
#define FERRY_VISIBLE [[gnu::visibility("default")]]

// Small functions on the path of every exchange: apart they pass structs through memory, and the stores and loads of
// that cost more than the work.
#define FERRY_ALWAYS_INLINE [[gnu::always_inline]] inline

// `typeid` works; without it ferry cannot see that an object is more than its type says.
#if defined(__cpp_rtti)
#define FERRY_HAS_RTTI 1
#else
#define FERRY_HAS_RTTI 0
#endif

// `_Float16` exists as a type. GCC 12 has it in C++ on x86-64 alone, though its limits are defined on AArch64, too.
#if defined(__FLT16_MANT_DIG__) && (defined(__clang__) || __GNUC__ >= 13 || defined(__SSE2__))
#define FERRY_HAS_FLOAT16 1
#else
#define FERRY_HAS_FLOAT16 0
#endif

// Extended floating-point types of C++23, told apart from `_Float16` and friends.
#if defined(__STDCPP_BFLOAT16_T__)
#define FERRY_HAS_STD_BFLOAT16 1
#else
#define FERRY_HAS_STD_BFLOAT16 0
#endif

// `std::mdspan` (C++23: libc++ 18, libstdc++ 15).
#if defined(__cpp_lib_mdspan) && __cpp_lib_mdspan >= 202207L
#define FERRY_HAS_STD_MDSPAN 1
#else
#define FERRY_HAS_STD_MDSPAN 0
#endif

// Arrow's buffers are read as they lie: bit 0 of the first byte comes first. Tensors alone need no byte order.
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FERRY_HAS_COLUMN 1
#else
#define FERRY_HAS_COLUMN 0
#endif

// `ipc/` and `cuda/` go to the kernel for what C++ has no word for: /proc, pidfd, eventfd, credentials of a peer.
#if defined(__linux__)
#define FERRY_HAS_IPC 1
#else
#define FERRY_HAS_IPC 0
#endif
