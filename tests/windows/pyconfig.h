// The configuration of CPython for Windows on x86-64, as far as its headers read it: the sizes of Windows' types and the use of DLLs.
#pragma once
#define MS_WINDOWS
#define MS_WIN32
#define MS_WIN64
#define NT_THREADS
#define HAVE_DECLSPEC_DLL
#define Py_ENABLE_SHARED 1
#define WITH_DOC_STRINGS 1
#define HAVE_WCHAR_H 1
#define SIZEOF_WCHAR_T 2
#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_VOID_P 8
#define SIZEOF_TIME_T 8
#define SIZEOF_DOUBLE 8
#define ALIGNOF_LONG 4
