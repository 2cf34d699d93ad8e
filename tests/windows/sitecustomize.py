"""Functions of the C runtime that NumPy calls and Wine 8 lacks: crealf and the like, as machine code for x86-64."""

import ctypes

REAL, IMAGINARY = "f20f1001c3", "f20f104108c3"  # movsd xmm0, [rcx] or [rcx + 8]; ret
REAL_F, IMAGINARY_F = "660f6ec1c3", "48c1e920660f6ec1c3"  # (shr rcx, 32;) movd xmm0, ecx; ret
PAGE_EXECUTE_READWRITE = 0x40

if hasattr(ctypes.windll.ntdll, "wine_get_version"):
    for name, code in dict(creal=REAL, creall=REAL, crealf=REAL_F, cimag=IMAGINARY, cimagl=IMAGINARY, cimagf=IMAGINARY_F).items():
        code = bytes.fromhex(code)
        address = ctypes.cast(getattr(ctypes.cdll.ucrtbase, name), ctypes.c_void_p)
        if not ctypes.windll.kernel32.VirtualProtect(address, len(code), PAGE_EXECUTE_READWRITE, ctypes.byref(ctypes.c_ulong())):
            raise ctypes.WinError()
        ctypes.memmove(address, code, len(code))
