"""Cases for imports: constructed tensors, valid and invalid."""

import ctypes
import gc
import warnings

from .case import Broken, NotApplicable, accept, case, refuse, require, told, try_import
from .dlpack import (
    DATA, DTYPES, FORMATS, IS_COPIED, PADDED, READ_ONLY, USED_LEGACY, USED_VERSIONED, VALUES, Forged, Offer, device_of,
    dtype_of, error_occurred, is_unused, name_of, struct_of,
)  # fmt: skip

I64 = 2**63 - 1


def holds(library, array, values):
    try:
        found = library.values(array)
    except Exception as error:
        if library.carries:
            raise NotApplicable(f"it passes the tensor on and cannot read its values: {told(error)}") from error
        raise Broken(f"it imported the tensor, and reading its values raised {told(error)}") from error
    require(found == values, f"it reads {found!r}, but the tensor has {values!r}")


def imported(library, values=VALUES, **fields):
    """Checks that a valid tensor is imported with the right values, and that its deleter runs once, after the last use."""
    offered = Offer(**fields)
    array = accept(library, offered)
    holds(library, array, values)
    del array
    released_once(offered)
    return offered


def released_once(offered):
    tensors = len([f for f in offered.made if f.has_deleter])
    calls = offered.settled(tensors)
    require(calls == tensors, f"{tensors} tensors were exported, but deleters ran {calls} times")


def taken_or_refused(library, reason, values=VALUES, **fields):
    """Like `imported`, for tensors that a library may reject; the deleter runs once in either case."""
    offered = Offer(**fields)
    array, error = try_import(library, offered)
    if error is None:
        holds(library, array, values)
    del array
    released_once(offered)
    if error is not None:
        raise NotApplicable(f"{reason}: {error}")


def refused(library, **fields):
    """Checks that a tensor is rejected; a library that passes tensors on unread may accept it."""
    offered = Offer(**fields)
    array, error = try_import(library, offered)
    require(not error_occurred(), "a Python error is still set after the import")
    if error is not None:
        return
    if library.carries and not set(fields) & {"ndim", "shape", "data"} - {"dtype", "device"}:
        tensor = struct_of(array.__dlpack__()).tensor
        asked = DTYPES.get(fields.get("dtype", "int32"), fields.get("dtype"))
        if (dtype_of(tensor), device_of(tensor)) == (asked, fields.get("device", (1, 0))):
            return
    if "device" in fields:
        try:
            library.values(array)
        except Exception:
            return  # the library marks it as not readable on the host
    what = "" if fields.get("data", DATA) is None else f" as {library.described(array)}"
    raise Broken(f"it accepted the tensor{what}")


def needs_versions(offered):
    if not offered.versioned:
        raise NotApplicable("it requests only the legacy struct, which has neither version nor flags")


def asks_for_versions(library):
    offered = Offer()
    library.take(offered)
    needs_versions(offered)


@case("R1", "consumer", 'header: "This is the current standard DLPack exchange data structure."')
def a_plain_tensor_is_imported(library):
    imported(library)


@case("R2", "consumer", 'header: "the consumer must call the deleter (and it is safe to do so). It is not safe to access any other fields as the memory layout will have changed."')
def another_major_version_is_refused_and_released(library):
    asks_for_versions(library)
    for major in (2, 99, 2**32 - 1):
        offered = Offer(version=(major, 0), only_header=True)
        refuse(library, offered)
        released_once(offered)


@case("R3", "consumer", 'header: "In the case of a minor version mismatch, the tensor can be safely used as long as the consumer knows how to interpret all fields."')
def every_minor_version_is_imported(library):
    asks_for_versions(library)
    for minor in (0, 1, 2, 3, 4, 17, 2**32 - 1):
        imported(library, version=(1, minor))


@case("R5", "consumer", 'header: "It can be NULL if there is no way for the caller to provide a reasonable destructor."')
def a_null_deleter_is_never_called(library):
    imported(library, has_deleter=False)


@case("R5", "consumer", 'header: "the context of the original host framework. Stores DLManagedTensorVersioned is used in the framework. It can also be NULL."')
def manager_ctx_is_ignored(library):
    for ctx in (0, 0xDEAD):
        imported(library, ctx=ctx)


@case("R7", "consumer", 'header: "When the borrowing framework doesn\'t need the tensor, it should call the deleter to notify the host that the resource is no longer needed."')
def the_deleter_runs_after_the_last_use(library):
    offered = Offer()
    array = accept(library, offered)
    gc.collect()
    calls = offered.deletions
    address = library.address(array)
    if calls and address is not None and not DATA <= address < DATA + 24:
        return  # it copied
    require(not calls, "the deleter has run while the array was in use")
    del array
    released_once(offered)


@case("R8", "consumer", "header: the legacy struct is deprecated but still in use", "should")
def a_legacy_tensor_is_imported(library):
    offered = Offer(versioned=False)
    array = accept(library, offered)
    holds(library, array, VALUES)
    del array
    released_once(offered)


@case("R9", "consumer", 'header: "the tensor can be safely used as long as the consumer knows how to interpret all fields"')
def codes_outside_the_enumeration_are_refused(library):
    for code in (19, 99, 128, 255):
        refused(library, dtype=(code, 32, 1))


@case("R11", "consumer", 'header: "bit mask to indicate that the tensor is read only."')
def read_only_data_is_not_writable(library):
    offered = Offer(flags=READ_ONLY)
    array = accept(library, offered)
    needs_versions(offered)
    holds(library, array, VALUES)
    writable = library.writable(array)
    if writable is None:
        raise NotApplicable("it has no read-only arrays; by the standard such a library ignores the flag")
    address = library.address(array)
    if address is None or DATA <= address < DATA + 24:
        require(not writable, "the array is writable and shares the memory of the read-only tensor")


@case("R11", "consumer", "no specification; array API: a library without read-only arrays should ignore the flag; torch.from_numpy warns", "should")
def read_only_data_is_not_made_writable_without_a_word(library):
    offered = Offer(flags=READ_ONLY)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        array = accept(library, offered)
    needs_versions(offered)
    if library.writable(array) is not None:
        raise NotApplicable("it has read-only arrays (the other case of R11)")
    first = ctypes.c_int32.from_address(DATA)
    try:
        library.write(array, 7)
        written = first.value == 7
    except Exception as error:
        raise NotApplicable(f"its arrays cannot be written by an index: {told(error)}") from error
    finally:
        first.value = 0
    require(not written or said, "the array is writable and shares the memory of the read-only tensor, and there was no warning")


@case("R12", "consumer", 'header: "If set, the tensor is considered solely owned throughout its lifetime by the consumer, until the producer-provided deleter is invoked."')
def a_copy_of_the_producer_is_imported(library):
    asks_for_versions(library)
    imported(library, flags=IS_COPIED)


@case("R13", "consumer", 'header: "This flag can be set by the producer to signal that a tensor of sub-byte type is padded."')
def padded_elements_are_not_read_as_packed(library):
    asks_for_versions(library)
    padded = ctypes.create_string_buffer(bytes(range(6)), 64)
    fields = {"data": ctypes.addressof(padded), "shape": (6,), "dtype": "float4_e2m1fn", "flags": PADDED, "version": (1, 1)}
    taken_or_refused(library, "it refuses padded float4_e2m1fn", [0, 0.5, 1, 1.5, 2, 3], **fields)


@case("R14", "consumer", "no specification; dlpack#190: unknown flags are ignored", "should")
def unknown_flags_are_ignored(library):
    asks_for_versions(library)
    for bit in (3, 17, 63):
        imported(library, flags=1 << bit)


@case("R15", "consumer", "no specification; NumPy: the legacy struct has no flag for writable data", "should")
def a_legacy_tensor_is_read_correctly(library):
    taken_or_refused(library, "it takes no legacy struct (R8)", versioned=False)


@case("R16", "consumer", 'header: "Type code of base types."')
def dtypes_are_read_by_code_and_width(library):
    import struct

    for dtype in library.dtypes:
        if dtype not in FORMATS:
            continue
        values = [False, True, False] if dtype == "bool" else [0, 1, 2]
        memory = struct.pack(f"3{FORMATS[dtype]}", *values)
        address = DATA + 1024
        ctypes.memmove(address, memory, len(memory))
        imported(library, values, data=address, shape=(3,), dtype=dtype)


def width_case(library, dtypes):
    for dtype in dtypes:
        refused(library, dtype=dtype, version=(1, 1))


@case("R17", "consumer", "header: bits; a width that the type does not have", "should")
def invalid_widths_are_refused(library):
    width_case(library, [(0, 31, 1), (2, 24, 1), (5, 48, 1), (1, 255, 1), (0, 0, 1)])


@case("R18", "consumer", "header: fp6 has 6 bits, fp4 has 4", "should")
def fp6_and_fp4_of_other_widths_are_refused(library):
    width_case(library, [(15, 8, 1), (16, 4, 1), (17, 8, 1), (17, 6, 1)])


@case("R19", "consumer", 'header: "When a sub-byte type is packed, DLPack requires the data to be in little bit-endian"')
def packed_elements_are_unpacked_in_little_bit_order(library):
    packed = ctypes.create_string_buffer(bytes([0x10, 0x32, 0x54]), 64)
    fields = {"data": ctypes.addressof(packed), "shape": (6,), "dtype": "float4_e2m1fn", "version": (1, 1)}
    taken_or_refused(library, "it takes no float4_e2m1fn", [0, 0.5, 1, 1.5, 2, 3], **fields)


@case("R21", "consumer", 'header: "Number of lanes in the type, used for vector types."')
def vector_types_are_not_read_as_scalars(library):
    refused(library, dtype=(2, 32, 2))


@case("R21", "consumer", "header: lanes; every type has at least one", "should")
def zero_lanes_are_refused(library):
    refused(library, dtype=(2, 32, 0))


@case("R23", "consumer", 'header: "The `byte_offset` field should be used to point to the beginning of the data."')
def byte_offset_is_added(library):
    imported(library, [[2, 3, 4], [5, 6, 7]], byte_offset=8)


@case("R23", "consumer", "header: byte_offset; before 1.2 strides can be NULL", "should")
def byte_offset_is_added_without_strides(library):
    imported(library, [[2, 3, 4], [5, 6, 7]], byte_offset=8, strides=None)


@case("R24", "consumer", 'header: "Before DLPack v1.2, strides can be NULL to indicate contiguous data."')
def null_strides_are_compact(library):
    imported(library, strides=None)


@case("R24", "consumer", 'header: "strides of the tensor (in number of elements, not bytes)"')
def strides_are_respected(library):
    cases = [((1, 2), [[0, 2, 4], [1, 3, 5]], "a transposed tensor"), ((20, 5), [[0, 5, 10], [20, 25, 30]], "a stepped tensor")]
    reasons = []
    for strides, values, what in cases:
        try:
            taken_or_refused(library, f"it refuses {what}", values, strides=strides)
        except NotApplicable as reason:
            reasons.append(str(reason))
    if len(reasons) == len(cases):
        raise NotApplicable(reasons[0])


@case("R25", "consumer", 'header: "When ndim == 0, shape can be set to NULL."')
def a_tensor_without_dimensions_has_one_element(library):
    for shape in ((), None):
        imported(library, 1, shape=shape, strides=None, ndim=0, data=DATA + 4)


@case("R26", "consumer", 'header: "if the tensor is of size zero, then the data pointer should be set to `NULL`."')
def a_tensor_without_elements_needs_no_data(library):
    empty = [[], []]
    for data in (None, DATA):
        imported(library, empty, data=data, shape=(2, 0))


@case("R26", "consumer", "no specification; cccl#11605: without elements no stride is used", "should")
def strides_without_elements_are_ignored(library):
    imported(library, [[], []], data=None, shape=(2, 0), strides=(I64, 7))


@case("R27", "consumer", "no specification; pytorch#83158: the stride of a dimension of size 1 is not used", "should")
def the_stride_of_one_element_is_ignored(library):
    for stride in (0, 7, 1 << 40):
        imported(library, [[[0], [1], [2]]], shape=(1, 3, 1), strides=(stride, 1, stride))


@case("R28", "consumer", 'header: "consumer can always rely on strides[dim] being valid for 0 <= dim < ndim"')
def negative_strides_are_respected_or_refused(library):
    taken_or_refused(library, "it refuses them", [[5, 4, 3], [2, 1, 0]], data=DATA + 20, strides=(-3, -1))


@case("R29", "consumer", 'header: "consumer can always rely on strides[dim] being valid for 0 <= dim < ndim"')
def zero_strides_are_respected_or_refused(library):
    taken_or_refused(library, "it refuses them", [[0, 1, 2], [0, 1, 2]], strides=(0, 1))


@case("R31", "consumer", 'header: "at the moment it is recommended to not rely on the data pointer being correctly aligned."', "should")
def unaligned_data_is_read_correctly_or_refused(library):
    memory = (ctypes.c_int32 * 6)(*range(6))
    for offset in (1, 4, 36):
        ctypes.memmove(DATA + 2048 + offset, memory, 24)
        taken_or_refused(library, f"it refuses data {offset} bytes behind a page", data=DATA + 2048 + offset)


@case("R32", "consumer", "no specification; arrow#51122: no valid tensor has such a struct", "should")
def negative_ndim_is_refused(library):
    refused(library, ndim=-1)


@case("R32", "consumer", "no specification; arrow#51122: no valid tensor has such a struct", "should")
def negative_extents_are_refused(library):
    refused(library, shape=(2, -3), strides=(3, 1))


@case("R32", "consumer", "header: shape can be NULL only when ndim is 0", "should")
def null_shape_is_refused(library):
    refused(library, shape=None, strides=None, ndim=2)


@case("R32", "consumer", "no specification; arrow#51122: no valid tensor has such a struct", "should")
def a_number_of_elements_that_overflows_is_refused(library):
    refused(library, shape=(2**33, 2**33), strides=(2**33, 1))


@case("R32", "consumer", "no specification; arrow#51122: no valid tensor has such a struct", "should")
def a_size_in_bytes_that_overflows_is_refused(library):
    refused(library, shape=(2**62,), strides=(1,))


@case("R32", "consumer", "no specification: data is NULL, but the tensor has elements", "should")
def null_data_with_elements_is_refused(library):
    refused(library, data=None)


@case("R33", "consumer", "no specification; nanobind exports one struct several times", "should")
def the_struct_is_not_modified(library):
    offered = Offer(ctx=0x1234)
    array = accept(library, offered)
    forged = offered.made[-1]
    fresh = Forged(**{"versioned": offered.versioned, "ctx": 0x1234})
    found, expected = bytes(forged.shape) + bytes(forged.strides), bytes(fresh.shape) + bytes(fresh.strides)
    require(found == expected, "the extents or strides of the tensor were changed")
    tensor, pristine = forged.raw.tensor, fresh.raw.tensor
    for field in ("data", "ndim", "byte_offset"):
        require(getattr(tensor, field) == getattr(pristine, field), f"the field {field} of the tensor was changed")
    require(forged.raw.ctx == 0x1234, "manager_ctx was changed")
    del array


@case("R34", "consumer", 'header: "the tensor can be safely used as long as the consumer knows how to interpret all fields"')
def unknown_devices_are_refused(library):
    for device in (0, 5, 99, -1):
        refused(library, device=(device, 0))


class Disagrees(Offer):
    """Pinned memory in __dlpack_device__ and CPU memory in the capsule, as PyTorch exports pinned memory."""

    def __dlpack_device__(self):
        return (3, 0)


@case("R38", "consumer", "no specification; PyTorch: pinned memory is device 3 in __dlpack_device__ and 1 in the capsule", "should")
def the_device_of_the_capsule_has_precedence(library):
    offered = Disagrees()
    array, error = try_import(library, offered)
    if error is not None:
        require(not offered.made, f"it consumed a capsule and then refused the tensor: {error}")
        raise NotApplicable(f"it refuses pinned memory before it calls __dlpack__: {error}")
    holds(library, array, VALUES)


@case("R39", "consumer", "header: kDLCUDAHost, kDLROCMHost and kDLCUDAManaged can be read by the host", "should")
def host_readable_memory_is_read_correctly_or_refused(library):
    reasons = []
    for device in (3, 11, 13):
        try:
            taken_or_refused(library, f"it refuses device {device}", device=(device, 0))
        except NotApplicable as reason:
            reasons.append(str(reason))
    if len(reasons) == 3:
        raise NotApplicable(reasons[0])


@case("R40", "consumer", 'header: "This will be CUDA device pointer or cl_mem handle in OpenCL. It may be opaque on some device types."')
def memory_of_other_devices_is_refused(library):
    for device in (4, 7, 8):
        refused(library, device=(device, 0))


@case("R46", "consumer", 'array API: "On CPU and other device types without streams, only None is accepted."')
def no_stream_is_passed_to_a_producer_on_the_host(library):
    offered = Offer()
    accept(library, offered)
    passed = [asked["stream"] for asked in offered.asked]
    require(all(stream is None for stream in passed), f"it passed stream={passed[-1]!r}")


class Records(Offer):
    """Accepts every keyword and records it."""

    def __dlpack__(self, *positions, **keywords):
        self.calls = [*getattr(self, "calls", []), (positions, keywords)]
        known = {k: v for k, v in keywords.items() if k in ("stream", "max_version", "dl_device", "copy")}
        return super().__dlpack__(**known)


@case("R52", "consumer", 'array API: "Added the max_version, dl_device, and copy keyword arguments."')
def only_the_keywords_of_the_standard_are_passed(library):
    offered = Records()
    accept(library, offered)
    for positions, keywords in offered.calls:
        require(not positions, f"it passed {positions!r} as positional arguments")
        unknown = set(keywords) - {"stream", "max_version", "dl_device", "copy"}
        require(not unknown, f"it passed {sorted(unknown)}")
        version = keywords.get("max_version")
        require(version is None or (isinstance(version, tuple) and len(version) == 2), f"it passed max_version={version!r}")
        require(keywords.get("copy") in (None, True, False), f"it passed copy={keywords.get('copy')!r}")
        device = keywords.get("dl_device")
        require(device is None or (isinstance(device, tuple) and len(device) == 2), f"it passed dl_device={device!r}")


def takes_copy(library):
    if "copy" not in library.arguments:
        raise NotApplicable("its from_dlpack has no copy")


@case("R53", "consumer", 'array API: "If True, the function must always copy"')
def copy_true_makes_a_copy(library):
    takes_copy(library)

    class Copies(Offer):
        def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
            self.fields["data"] = DATA + 4096 if copy else DATA
            ctypes.memmove(DATA + 4096, DATA, 24)
            self.fields["flags"] = IS_COPIED if copy else 0
            return super().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    offered = Copies()
    array = accept(library, offered, copy=True)
    holds(library, array, VALUES)
    address = library.address(array)
    if address is None:
        raise NotApplicable("the address of its arrays is unknown")
    require(not DATA <= address < DATA + 24, "the array shares the memory of the producer")


class Ignores(Offer):
    """A producer that does not copy, whatever it is asked for."""

    def __repr__(self):
        return "a producer that ignores copy=True: it shares its memory and does not set IS_COPIED"


class OldSignature(Offer):
    """A producer of the time before copy; shares its memory."""

    def __dlpack__(self, *, stream=None, max_version=None):
        return super().__dlpack__(stream=stream, max_version=max_version)

    def __repr__(self):
        return "__dlpack__(self, *, stream=None, max_version=None)"


def never_shares(library, offered):
    """Checks that an import with copy=True is an error, or does not share the memory of the producer."""
    takes_copy(library)
    array, error = try_import(library, offered, copy=True)
    if error is not None:
        return
    address = library.address(array)
    if address is None:
        raise NotApplicable("the address of its arrays is unknown")
    require(not DATA <= address < DATA + 24, "the array shares the memory of the producer")


@case("R53", "consumer", 'array API: "If True, the function must always copy"; the producer was to copy, and IS_COPIED says whether it has', "should")
def copy_true_of_a_producer_that_ignores_it_does_not_share(library):
    never_shares(library, Ignores())


@case("R53", "consumer", 'array API: "If True, the function must always copy"; the recommended second call, after a TypeError, asks for no copy', "should")
def copy_true_of_a_producer_without_copy_does_not_share(library):
    never_shares(library, OldSignature())


@case("R53", "consumer", 'array API: "If None, the function must reuse the existing memory buffer if possible and copy otherwise."')
def false_and_none_share(library):
    for how in ({"copy": False}, {}) if "copy" in library.arguments else ({},):
        offered = Offer()
        array, error = try_import(library, offered, **how)
        if how and error is not None and error.split(":")[0] in ("BufferError", "ValueError"):
            raise NotApplicable(f"it says that it must copy: {error}")
        require(error is None, f"it refused the tensor: {error}")
        address = library.address(array)
        if address is None:
            raise NotApplicable("the address of its arrays is unknown")
        require(address == DATA, "the array does not share the memory of the compact, page-aligned tensor")


@case("R54", "consumer", 'array API: "If False, the function must never copy, and raise BufferError in case a copy is deemed necessary"')
def a_forbidden_copy_is_an_error(library):
    takes_copy(library)

    class NeedsCopy(Offer):
        def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
            if copy is False:
                raise BufferError("a copy is required")
            self.fields.update(data=DATA + 4096, flags=IS_COPIED)
            return super().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    ctypes.memmove(DATA + 4096, DATA, 24)
    offered = NeedsCopy()
    array, text = try_import(library, offered, copy=False)
    if array is not None and not any(asked["copy"] is False for asked in offered.asked):
        raise NotApplicable("it does not pass copy=False to the producer (R56)")
    require(array is None, "the producer was asked for copy=False again without it, and the copy that it made was accepted")
    require(text.split(":")[0] in ("BufferError", "ValueError"), f"it raised {text}")


@case("R56", "consumer", "array API: copy and device are arguments of __dlpack__, and the producer copies", "should")
def copy_is_forwarded_to_the_producer(library):
    takes_copy(library)
    for copy in (True, False):
        offered = Offer()
        try_import(library, offered, copy=copy)
        asked = [a["copy"] for a in offered.asked]
        require(copy in asked, f"the producer was called with copy={asked}")


@case("R55", "consumer", 'array API: "a compliant library should offer a way for from_dlpack to return an array whose underlying memory is accessible to the Python interpreter, when the corresponding device is provided"')
def the_host_can_be_requested(library):
    if "device" not in library.arguments:
        raise NotApplicable("its from_dlpack has no device")
    array = accept(library, Offer(), device=library.host_device)
    holds(library, array, VALUES)


@case("R58", "consumer", "array API: recommendation to call again without max_version after a TypeError", "should")
def an_old_producer_is_called_again(library):
    class Old:
        def __init__(self):
            self.offered = Offer(versioned=False)

        def __dlpack__(self, stream=None):
            return self.offered.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

        def __repr__(self):
            return "__dlpack__(self, stream=None)"

    old = Old()
    array = accept(library, old)
    holds(library, array, VALUES)
    del array
    released_once(old.offered)


@case("R58", "consumer", 'array API: "the consumer must verify the version even when max_version is passed"')
def the_name_of_a_capsule_states_its_struct(library):
    asks_for_versions(library)
    offered = Offer(versioned=False)
    array, error = try_import(library, offered)
    if error is None:
        holds(library, array, VALUES)
    del array
    released_once(offered)


@case("R58", "consumer", 'array API: "the consumer must verify the version even when max_version is passed"')
def an_unrequested_versioned_struct_is_not_read_as_legacy(library):
    offered = Offer(versioned=True)
    array, error = try_import(library, offered)
    if error is None:
        holds(library, array, VALUES)
    del array
    released_once(offered)


class OneCapsule(Offer):
    """Returns the same capsule from each call."""

    def __dlpack__(self, **keywords):
        if not hasattr(self, "capsule"):
            self.capsule = super().__dlpack__(**keywords)
        return self.capsule


@case("R60", "consumer", 'Python specification: "to ensure that PyCapsule_Destructor will not get called"')
def the_capsule_no_longer_calls_the_deleter(library):
    offered = OneCapsule()
    array = accept(library, offered)
    require(not is_unused(offered.capsule), "after the import, the capsule has its name and its destructor")
    del array


@case("R60", "consumer", "Python specification: the capsule is renamed; nanobind removes the destructor of a capsule without another owner", "should")
def the_capsule_is_renamed(library):
    offered = OneCapsule()
    array = accept(library, offered)
    expected = USED_VERSIONED if offered.versioned else USED_LEGACY
    require(name_of(offered.capsule) == expected, f"the capsule has the name {name_of(offered.capsule)} after the import")
    del array


@case("R60", "consumer", 'Python specification: "The producer must set the PyCapsule name to dltensor so that it can be inspected by name"')
def capsules_of_other_names_are_refused(library):
    for name in (b"tensor", b"dltensor_", b"", b"dltensor_versioned_2", b"arrow_array", None):
        offered = OneCapsule(name=name)
        refuse(library, offered)
        require(offered.deletions == 0, f"a capsule named {name} was refused, but its deleter was called")
        require(name_of(offered.capsule) == name, f"a capsule named {name} has the name {name_of(offered.capsule)} after the refusal")


@case("R60", "consumer", 'Python specification: "The __dlpack__ method will produce a PyCapsule containing a DLManagedTensor"')
def an_object_that_is_no_capsule_is_refused(library):
    class Odd(Offer):
        def __init__(self, answer):
            super().__init__()
            self.answer = answer

        def __dlpack__(self, **keywords):
            return self.answer

        def __repr__(self):
            return f"__dlpack__ returns {self.answer!r}"

    for answer in (None, 1, "dltensor", object(), [DATA]):
        refuse(library, Odd(answer))


@case("R62", "consumer", 'Python specification: "It does so by renaming the capsule to used_dltensor to ensure that PyCapsule_Destructor will not get called"')
def a_refusal_keeps_or_releases_the_capsule(library):
    seen = 0
    for fields in (
        {"dtype": (99, 32, 1)}, {"dtype": (2, 32, 2)}, {"dtype": (2, 31, 1)}, {"device": (99, 0)}, {"device": (4, 0)},
        {"shape": (1,) * 200},
    ):  # fmt: skip
        offered = Offer(**fields)
        array, error = try_import(library, offered)
        if array is not None or not offered.made:
            continue
        seen += 1
        capsule, calls = offered.capsules[-1], offered.deletions
        used = not is_unused(capsule)
        text = f"it refused ({error}) and the capsule still has the name {name_of(capsule)}, but the number of deleter calls is {calls}"
        require(used or calls == 0, text)
        del capsule
        released_once(offered)
    if not seen:
        raise NotApplicable("it refuses none of the tensors that it requests")


def twice(library, offered, give):
    array = accept(library, give())
    refuse(library, give())
    holds(library, array, VALUES)
    del array, offered.capsule
    require(offered.settled() == len(offered.made), f"the deleter ran {offered.deletions} times")


@case("R63", "consumer", 'Python specification: "it is consumed exactly once"')
def a_used_raw_capsule_is_refused(library):
    if not library.takes_capsules:
        raise NotApplicable("it accepts only objects, like the standard")
    offered = OneCapsule()
    twice(library, offered, lambda: offered.__dlpack__(max_version=(1, 0)))


@case("R63", "consumer", "Python specification: a capsule is consumed exactly once; here the producer returns it twice", "should")
def a_used_capsule_is_refused(library):
    offered = OneCapsule()
    twice(library, offered, lambda: offered)


@case("R64", "consumer", 'Python specification: "function, which accepts any (array) object with the two DLPack methods implemented"')
def an_object_is_imported(library):
    offered = Offer()
    holds(library, accept(library, offered), VALUES)


@case("R64", "consumer", "no specification; PyTorch and CuPy also import raw capsules", "should")
def a_raw_capsule_is_imported(library):
    if not library.takes_capsules:
        raise NotApplicable("it accepts only objects, like the standard")
    offered = Offer()
    for version in ((1, 0), None):
        capsule = offered.__dlpack__(max_version=version)
        holds(library, accept(library, capsule), VALUES)


@case("R68", "consumer", 'header: "The destructor deletes the argument self as well."')
def the_deleter_runs_once_for_each_tensor(library):
    offered = Offer()
    arrays = [accept(library, offered) for _ in range(20)]
    arrays += [library.take(offered) for _ in range(5)]
    del arrays
    require(offered.settled() == len(offered.made), f"{len(offered.made)} tensors were exported, but deleters ran {offered.deletions} times")
    require(all(f.deletions == 1 for f in offered.made), "a deleter ran more than once")


class Boom(Exception):
    pass


@case("R81", "consumer", 'array API: "from_dlpack must propagate such exceptions."')
def errors_of_a_producer_propagate(library):
    class Raises(Offer):
        def __init__(self, error):
            super().__init__()
            self.error = error

        def __dlpack__(self, **keywords):
            raise self.error

        def __repr__(self):
            return f"__dlpack__ raises {self.error!r}"

    for error in (BufferError("cannot travel"), ValueError("bad"), MemoryError("none left"), Boom("own")):
        offered = Raises(error)
        library.said, library.offered = f"{library.call}(x)", offered
        try:
            library.take(offered)
        except type(error):
            continue
        except Exception as other:
            raise Broken(f"{type(error).__name__} of the producer became {told(other)}") from other
        raise Broken(f"{type(error).__name__} of the producer was swallowed")


@case("R81", "consumer", "array API: AttributeError without __dlpack__", "should")
def an_object_without_the_protocol_is_an_error(library):
    refuse(library, object())

