// ferry: what the compiler can do. The only header that asks it.
#pragma once

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "ferry needs C++20: compile with -std=c++20 or later (GCC 12, Clang 16, or newer)"
#endif
#if !defined(__GNUC__)
#error "ferry supports GCC 12 and Clang 16, or newer, on LP64 platforms"
#endif

#include <version>

// A deleted overload that says what to write instead. Compilers print the declaration, so the sentence shows everywhere;
// from C++26 on it is the diagnostic itself. Keep name and sentence on one line.
#if defined(__cpp_deleted_function) && __cpp_deleted_function >= 202403L && __cplusplus > 202302L
#define FERRY_DELETED(cure) = delete (cure)
#else
#define FERRY_DELETED(cure) = delete
#endif

// Error paths stay out of the instruction stream of the paths that succeed.
#define FERRY_COLD [[gnu::cold, gnu::noinline]]

// What holds state for one shared library. Two extension modules may be built with two versions of ferry: without this the
// loader would give both the variables of the one that it loaded first, whose layout may be another.
#define FERRY_HIDDEN [[gnu::visibility("hidden")]]

// Small functions on the path of every exchange: apart they pass structs through memory, and the stores and loads of that
// cost more than the work.
#define FERRY_ALWAYS_INLINE [[gnu::always_inline]] inline

// `typeid` works; without it ferry cannot see that an object is more than its type says.
#if defined(__cpp_rtti)
#define FERRY_HAS_RTTI 1
#else
#define FERRY_HAS_RTTI 0
#endif

// `_Float16` exists as a type (GCC 12 and Clang 15 on x86-64 and AArch64).
#if defined(__FLT16_MANT_DIG__)
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
