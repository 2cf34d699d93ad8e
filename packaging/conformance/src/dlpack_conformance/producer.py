"""Cases for exports: capsules are read, consumed and released."""

import ctypes
import gc
import sys

from .case import Broken, NotApplicable, case, export, refused_export, require, told
from .dlpack import (
    DELETER, DTYPES, FORMATS, IS_COPIED, KEPT, LEGACY, PADDED, READ_ONLY, VERSIONED, Offer, Versioned, capsule_destructor, delete,
    device_of, dtype_of, elements_of, error_occurred, is_capsule, name_of, on_a_foreign_thread, shape_of, strides_of, struct_of,
    take,
)  # fmt: skip
from .plugin import LAYOUTS, Library, numbers

ONE = (1, 0)
MEGABYTE = (1 << 18,)  # of int32
NOT_STRIDED = ("sparse", "sharded", "meta", "quantized")
UNRESOLVED = ("conjugate", "negated")  # the memory holds other numbers than the array


def first_of(raw):
    return (raw.tensor.data or 0) + raw.tensor.byte_offset


def legacy_capsule(library, x, **arguments):
    """Exports a legacy capsule; not applicable if the producer does not support these."""
    try:
        capsule = x.__dlpack__(**arguments)
    except BufferError as error:
        raise NotApplicable(f"it does not export the legacy struct: {told(error)}") from error
    if name_of(capsule) != LEGACY:
        raise NotApplicable("it does not export the legacy struct")
    return capsule


def versioned_capsule(library, x, **arguments):
    """Exports a versioned capsule, which has flags."""
    capsule = export(library, x, max_version=ONE, **arguments)
    if name_of(capsule) != VERSIONED:
        raise NotApplicable("it exports only the legacy struct, which has neither version nor flags")
    return capsule


def reads_right(library, capsule, dtype, shape, layout="compact"):
    raw = struct_of(capsule)
    expected = LAYOUTS[layout](numbers(dtype, shape))
    require(dtype_of(raw.tensor) == DTYPES[dtype], f"its dtype is {dtype_of(raw.tensor)}, but {dtype} is {DTYPES[dtype]}")
    if dtype in FORMATS:
        found = elements_of(raw.tensor, dtype)
        require(found == expected, f"the memory contains {found!r}, but the array is {expected!r}")


@case("R1", "producer", 'header: "This is the current standard DLPack exchange data structure."')
def struct_has_the_layout_of_the_header(library):
    reads_right(library, export(library, library.array(), max_version=ONE), *library.plain)


@case("R1", "producer", 'header: "This data structure is used as Legacy DLManagedTensor in DLPack exchange"')
def legacy_struct_has_the_layout_of_the_header(library):
    reads_right(library, legacy_capsule(library, library.array()), *library.plain)


@case("R4", "producer", 'header: "A change in major version indicates that we have changed the data layout of the ABI"')
def major_version_is_one(library):
    raw = struct_of(versioned_capsule(library, library.array()))
    require(raw.major == 1, f"the version is ({raw.major}, {raw.minor})")


@case("R4", "producer", "header: the codes from 7 on came with 1.1", "should")
def new_dtypes_have_a_version_that_defines_them(library):
    new = [name for name in library.dtypes if DTYPES[name][0] >= 7]
    if not new:
        raise NotApplicable("it has no type that DLPack 1.0 lacks")
    for name in new:
        raw = struct_of(versioned_capsule(library, library.array(name, (4,))))
        require(raw.minor >= 1, f"{name} is exported with version ({raw.major}, {raw.minor}), which does not define this type")


@case("R6", "producer", 'header: "This should be called to destruct manager_ctx which holds the DLManagedTensorVersioned."')
def deleter_releases_the_memory(library):
    def once():
        capsule = export(library, library.array("int32", MEGABYTE), max_version=ONE)
        first = first_of(struct_of(capsule))
        ctypes.memset(first, 1, 1 << 20)
        delete(take(capsule))
        return first

    lies_where_others_lay(once, "200 arrays of 1 MiB were exported, taken and deleted")


def lies_where_others_lay(once, evidence):
    """`once` says where its memory was. Memory that is released is used again, by whichever allocator; what leaks is not."""
    places = set()
    for _ in range(200):
        places.add(once())
        gc.collect(0)
    require(len(places) <= 100, f"{evidence}, but they had {len(places)} addresses")


@case("R7", "producer", 'header: "When the borrowing framework doesn\'t need the tensor, it should call the deleter to notify the host that the resource is no longer needed."')
def data_is_valid_until_the_deleter_is_called(library):
    dtype, expected = library.plain
    x = library.array()
    capsule = export(library, x, max_version=ONE)
    raw = take(capsule)
    del x, capsule
    gc.collect()
    others = [library.make(dtype, expected) for _ in range(50)]
    found, shape, strides = elements_of(raw.tensor, dtype), shape_of(raw.tensor), strides_of(raw.tensor)
    delete(raw)
    del others
    require(shape == expected and len(strides) == len(shape), f"without the array, shape and strides are {shape} and {strides}")
    require(found == numbers(dtype, expected), f"without the array, the memory contains {found!r}")


@case("R8", "producer", "array API: max_version; consumers that do not pass it expect the legacy struct", "should")
def legacy_struct_is_available(library):
    capsule = export(library, library.array())
    require(name_of(capsule) in (LEGACY, VERSIONED), f"the capsule has the name {name_of(capsule)}")
    require(name_of(capsule) == LEGACY, "without max_version it returns a versioned capsule, which an old consumer cannot read")


@case("R11", "producer", 'header: "bit mask to indicate that the tensor is read only."')
def read_only_is_flagged(library):
    x = library.array(layout="readonly")
    raw = struct_of(versioned_capsule(library, x))
    require(raw.flags & (READ_ONLY | IS_COPIED), f"flags are {raw.flags} for a read-only array whose memory is shared")


@case("R11", "producer", 'header: "By default the flags should be set to 0."')
def writable_is_not_flagged(library):
    x = library.array()
    if library.writable(x) is False:
        raise NotApplicable("all of its arrays are read-only")
    raw = struct_of(versioned_capsule(library, x))
    require(not raw.flags & READ_ONLY, f"flags are {raw.flags} for a writable array")


@case("R11", "producer", "header: DLPACK_FLAG_BITMASK_READ_ONLY", "should")
def read_only_is_kept_by_a_re_export(library):
    if not library.consumes:
        raise NotApplicable("it imports nothing")
    offered = Offer(flags=READ_ONLY)
    a = library.take(offered)
    if not offered.versioned:
        raise NotApplicable("it requests only the legacy struct, which has no flags")
    if library.writable(a) is None:
        raise NotApplicable("it has no read-only arrays; by the standard such a library ignores the flag")
    library.made = "import of a tensor that is READ_ONLY"
    raw = struct_of(versioned_capsule(library, a))
    require(raw.flags & READ_ONLY, f"a read-only tensor is exported again with flags {raw.flags}")


@case("R12", "producer", 'Python specification: "When a copy is made, the producer must set the DLPACK_FLAG_BITMASK_IS_COPIED bit flag."')
def copy_is_flagged(library):
    x = library.array()
    try:
        x.__dlpack__(max_version=ONE, copy=True)
    except Exception as error:
        raise NotApplicable(f"it does not copy (R53): {told(error)}") from error
    raw = struct_of(versioned_capsule(library, x, copy=True))
    require(raw.flags & IS_COPIED, f"flags are {raw.flags} for copy=True")


@case("R12", "producer", 'header: "bit mask to indicate that the tensor is a copy made by the producer."')
def shared_memory_is_not_flagged_as_copied(library):
    x = library.array()
    one, other = versioned_capsule(library, x), versioned_capsule(library, x)
    flags = [struct_of(c).flags & IS_COPIED for c in (one, other)]
    same = first_of(struct_of(one)) == first_of(struct_of(other))
    require(not (same and any(flags)), "two exports share memory and have the flag IS_COPIED")


@case("R12", "producer", 'header: "bit mask to indicate that the tensor is a copy made by the producer."')
def a_shared_re_export_is_not_flagged_as_copied(library):
    if not library.consumes:
        raise NotApplicable("it imports nothing")
    offered = Offer(flags=IS_COPIED)
    a = library.take(offered)
    library.made = "import of a tensor that is IS_COPIED"
    one, other = versioned_capsule(library, a), versioned_capsule(library, a)
    same = first_of(struct_of(one)) == first_of(struct_of(other))
    flags = [struct_of(c).flags for c in (one, other)]
    require(not (same and any(f & IS_COPIED for f in flags)), f"two exports share memory and have the flags {flags}")


@case("R14", "producer", "header: flags should be 0 by default", "should")
def unknown_flags_are_zero(library):
    raw = struct_of(versioned_capsule(library, library.array()))
    require(raw.flags < 8, f"flags are {raw.flags:#x}, but only the lowest three bits are defined")


@case("R15", "producer", "no specification; NumPy: the legacy struct has no flag for read-only data", "should")
def read_only_data_is_not_shared_as_legacy(library):
    x = library.array(layout="readonly")
    try:
        capsule = x.__dlpack__()
    except Exception:
        return
    if name_of(capsule) != LEGACY:
        raise NotApplicable("it does not export the legacy struct")
    library.said = "x.__dlpack__()"
    address = library.address(x)
    if address is None:
        address = first_of(struct_of(x.__dlpack__()))
    require(first_of(struct_of(capsule)) != address, "the memory of a read-only array is shared through a struct without a read-only flag")


@case("R16", "producer", 'header: "std::complex<float>: type_code = 5, bits = 64, lanes = 1"')
def dtypes_have_the_right_codes_and_widths(library):
    for dtype in library.dtypes:
        library.made = f"{dtype} (2, 3)"
        capsule = export(library, library.array(dtype, (2, 3)), max_version=ONE)
        reads_right(library, capsule, dtype, (2, 3))


@case("R19", "producer", 'header: "The default for sub-byte types (ex: fp4/fp6) is assumed packed."')
def packed_elements_are_in_little_bit_order(library):
    if not library.consumes:
        raise NotApplicable("it imports nothing, and this case requires an import")
    packed = ctypes.create_string_buffer(bytes([0x10, 0x32, 0x54]), 64)
    offered = Offer(data=ctypes.addressof(packed), shape=(6,), dtype="float4_e2m1fn", version=(1, 1))
    try:
        a = library.take(offered)
    except Exception as error:
        raise NotApplicable("it does not import float4_e2m1fn") from error
    library.made = "float4_e2m1fn (6,)"
    capsule = export(library, a, max_version=(1, 3))
    raw = struct_of(capsule)
    data = ctypes.string_at(first_of(raw), 6 if isinstance(raw, Versioned) and raw.flags & PADDED else 3)
    codes = [b & 15 for b in data] if len(data) == 6 else [data[i // 2] >> 4 * (i % 2) & 15 for i in range(6)]
    require(dtype_of(raw.tensor) == (17, 4, 1), f"its dtype is {dtype_of(raw.tensor)}")
    require(codes == list(range(6)), f"the elements 0 to 5 are in memory as {data.hex(' ')}, which decodes to {codes}")


@case("R20", "producer", 'header: "An explicit error message should be raised when attempting to export an array with non-native endianness"')
def foreign_byte_order_is_refused(library):
    x = library.special("byteswapped")
    refused_export(library, x, max_version=ONE)


@case("R23", "producer", 'header: "The `byte_offset` field should be used to point to the beginning of the data."')
def first_element_is_data_plus_byte_offset(library):
    x = library.array(layout="offset")
    capsule = export(library, x, max_version=ONE)
    reads_right(library, capsule, "int32", (4, 6), "offset")
    address = library.address(x)
    if address is not None:
        require(first_of(struct_of(capsule)) == address, "data + byte_offset is not the address of the first element in the library")


@case("R23", "producer", "no specification; dlpack#186: several consumers ignored it", "should")
def byte_offset_is_zero(library):
    raw = struct_of(export(library, library.array(layout="offset"), max_version=ONE))
    require(raw.tensor.byte_offset == 0, f"byte_offset is {raw.tensor.byte_offset}")


@case("R24", "producer", 'header: "Before DLPack v1.2, strides can be NULL to indicate contiguous data. This is not allowed in DLPack v1.2 and later."')
def strides_are_not_null_if_the_version_requires_them(library):
    for arguments in ({"max_version": (1, 3)}, {"max_version": ONE}):
        for layout in ("compact", "transposed")[: 2 if library.plain == Library.plain else 1]:
            raw = struct_of(export(library, library.array(layout=layout), **arguments))
            version = (raw.major, raw.minor) if isinstance(raw, Versioned) else None
            if version and version >= (1, 2):
                require(raw.tensor.strides, f"strides are NULL in a struct of version {version}")


def layout_case(layout):
    def reads(library):
        x = library.array(layout=layout)
        for arguments in ({"max_version": ONE}, {}):
            try:
                capsule = export(library, x, **arguments)
            except Broken:
                if arguments:
                    raise
                continue  # legacy: a case of its own
            reads_right(library, capsule, "int32", (4, 6), layout)

    return reads


@case("R24", "producer", 'header: "strides of the tensor (in number of elements, not bytes)"')
def transposed_and_stepped_views_have_the_right_strides(library):
    for layout in ("transposed", "stepped"):
        layout_case(layout)(library)


@case("R25", "producer", 'header: "When ndim == 0, shape can be set to NULL."')
def a_tensor_without_dimensions_has_one_element(library):
    x = library.array("float32", ())
    raw = struct_of(export(library, x, max_version=ONE))
    require(raw.tensor.ndim == 0, f"ndim is {raw.tensor.ndim}")
    require(raw.tensor.data, "data is NULL, but the tensor has one element")
    require(elements_of(raw.tensor, "float32") == 0, f"the element is {elements_of(raw.tensor, 'float32')}, expected 0")


@case("R26", "producer", "header: data should be NULL if the tensor is of size zero", "should")
def data_without_elements_is_null(library):
    raw = struct_of(export(library, library.array("int32", (0, 3)), max_version=ONE))
    require(not raw.tensor.data, "data is not NULL for shape (0, 3)")


@case("R26", "producer", 'header: "if the tensor is of size zero, then the data pointer should be set to `NULL`."')
def arrays_without_elements_can_be_exported(library):
    for shape in ((0,), (0, 3), (3, 0)):
        raw = struct_of(export(library, library.array("int32", shape), max_version=ONE))
        require(shape_of(raw.tensor) == shape, f"the shape is {shape_of(raw.tensor)}, but the array's is {shape}")


@case("R28", "producer", 'header: "strides of the tensor (in number of elements, not bytes)"')
def negative_strides_are_exported_correctly_or_refused(library):
    x = library.array(layout="reversed")
    try:
        capsule = x.__dlpack__(max_version=ONE)
    except BufferError as error:
        raise NotApplicable(f"it refuses them: {told(error)}") from error
    library.said = "x.__dlpack__(max_version=(1, 0))"
    reads_right(library, capsule, "int32", (4, 6), "reversed")


@case("R29", "producer", 'header: "strides of the tensor (in number of elements, not bytes)"')
def broadcast_views_are_exported_correctly(library):
    layout_case("broadcast")(library)


@case("R30", "producer", 'header: "strides of the tensor (in number of elements, not bytes)"')
def byte_strides_within_elements_are_refused(library):
    x = library.special("odd-strides")
    refused_export(library, x, max_version=ONE)


@case("R31", "producer", "header: data is always aligned to 256 bytes, and consumers must not rely on it", "should")
def new_memory_is_aligned(library):
    if not library.owns_memory:
        raise NotApplicable("another library allocates its memory")
    least = 256
    arrays = [library.make("float32", (1000 + 17 * i,)) for i in range(16)]
    for x in arrays:
        address = first_of(struct_of(export(library, x, max_version=ONE)))
        while address % least:
            least //= 2
    require(least >= 64, "one of 16 new arrays does not begin at a multiple of 64 bytes")


@case("R35", "producer", "header: device_id; there is one CPU", "should")
def host_is_device_zero(library):
    if library.device[0] not in (1, 3, 13):
        raise NotApplicable("its arrays are on a device with an id")
    raw = struct_of(export(library, library.array(), max_version=ONE))
    require(raw.tensor.device.id == 0, f"the device is {device_of(raw.tensor)}")


@case("R37", "producer", 'array API: "a tuple (device_type, device_id) in DLPack format"')
def device_is_a_pair_and_matches_the_capsule(library):
    x = library.array()
    library.said = "x.__dlpack_device__()"
    device = x.__dlpack_device__()
    require(isinstance(device, tuple) and len(device) == 2, f"it returned {device!r}, which is not a pair")
    require(all(isinstance(part, int) or hasattr(part, "value") for part in device), f"it returned {device!r}")
    pair = tuple(int(getattr(part, "value", part)) for part in device)
    found = device_of(struct_of(export(library, x, max_version=ONE)).tensor)
    require(pair == found, f"__dlpack_device__ returns {pair}, but the capsule has {found}")
    require(x.__dlpack_device__() == device, "a second call returns another device")


@case("R40", "producer", 'array API: "If the device type cannot be handled by the producer, this function must raise BufferError."')
def unknown_device_is_a_buffer_error(library):
    error = refused_export(library, library.array(), max_version=ONE, dl_device=(4, 0))
    require(isinstance(error, BufferError), f"it raised {told(error)}")


def special_arrays(library, kinds):
    """Yields the arrays of these kinds that the library has."""
    found = False
    for kind in kinds:
        try:
            x = library.special(kind)
        except Exception:
            continue
        library.made, found = f"{kind} array", True
        yield kind, x
    if not found:
        raise NotApplicable(f"it has no {' or '.join(kinds)} arrays")


def exports_what_it_says(library, kind, x, raw):
    """Checks the real numbers in the struct of an array whose memory holds others until it is resolved."""
    expected = library.resolved(x)
    if dtype_of(raw.tensor) == DTYPES["complex64"]:
        parts = list((ctypes.c_float * (2 * len(expected))).from_address(first_of(raw)))
        found = [complex(*parts[i : i + 2]) for i in range(0, len(parts), 2)]
    else:
        found = elements_of(raw.tensor, "float32")
    require(found == expected, f"the memory of the {kind} array contains {found}, but its elements are {expected}")


@case("R41", "producer", 'array API: "Use of DLPack requires that the data can be represented by a strided, in-memory layout on a single device."')
def arrays_without_a_strided_memory_are_refused(library):
    for _, x in special_arrays(library, NOT_STRIDED):
        refused_export(library, x, max_version=ONE)


@case("R41", "producer", 'Python specification: "to construct a new array containing the data from"')
def conjugated_and_negated_arrays_are_resolved_or_refused(library):
    for kind, x in special_arrays(library, UNRESOLVED):
        library.said = "x.__dlpack__(max_version=(1, 0))"
        try:
            capsule = x.__dlpack__(max_version=ONE)
        except Exception:
            continue
        exports_what_it_says(library, kind, x, struct_of(capsule))


@case("R46", "producer", 'array API: "On CPU and other device types without streams, only None is accepted."')
def no_stream_is_accepted_on_the_host(library):
    if library.device[0] != 1:
        raise NotApplicable("its arrays are not on the CPU")
    x = library.array()
    export(library, x, stream=None)
    export(library, x, stream=None, max_version=ONE)


@case("R46", "producer", "array API: on CPU only None is accepted", "should")
def streams_are_refused_on_the_host(library):
    if library.device[0] != 1:
        raise NotApplicable("its arrays are not on the CPU")
    refused_export(library, library.array(), max_version=ONE, stream=12345)


@case("R48", "producer", 'array API: "when kDLCPU is in use, stream must be None"')
def host_target_takes_no_stream(library):
    raw = struct_of(export(library, library.array(), stream=None, dl_device=(1, 0), max_version=ONE))
    require(device_of(raw.tensor)[0] in (1, 3, 13), f"the capsule is on {device_of(raw.tensor)}")


@case("R52", "producer", 'array API: "Added the max_version, dl_device, and copy keyword arguments."')
def all_keywords_are_accepted(library):
    for arguments in ({"stream": None}, {"max_version": ONE}, {"dl_device": None}, {"copy": None}):
        capsule = export(library, library.array(), **{"max_version": ONE, **arguments})
        require(is_capsule(capsule), f"it returned a {type(capsule).__name__}")


@case("R52", "producer", 'array API: "self: array, /, *, stream: Optional[Union[int, Any]] = None"')
def positional_arguments_are_a_type_error(library):
    library.said = "x.__dlpack__(None)"
    x = library.array()
    try:
        x.__dlpack__(None)
    except TypeError:
        return
    except Exception as error:
        raise Broken(f"it raised {told(error)}") from error
    raise Broken("it accepted a positional argument")


@case("R52", "producer", 'array API: consumers that follow its recommended logic call again after a TypeError', "should")
def unknown_keywords_are_a_type_error(library):
    error = refused_export(library, library.array(), bogus_keyword=1)
    require(isinstance(error, TypeError), f"it raised {told(error)}")


@case("R53", "producer", 'array API: "If None, the function must reuse the existing memory buffer if possible and copy otherwise."')
def none_shares(library):
    x = library.array()
    one, other = export(library, x, max_version=ONE), export(library, x, max_version=ONE, copy=None)
    addresses = {first_of(struct_of(c)) for c in (one, other)} | ({library.address(x)} - {None})
    require(len(addresses) == 1, "two exports of a compact array do not share its memory")


def asked_for_a_copy(library, x):
    library.said = "x.__dlpack__(max_version=(1, 0), copy=True)"
    return x.__dlpack__(max_version=ONE, copy=True)


@case("R53", "producer", 'array API: "If True, the function must always copy"')
def copy_true_never_shares(library):
    x = library.array()
    shared = export(library, x, max_version=ONE)
    try:
        copied, other = asked_for_a_copy(library, x), asked_for_a_copy(library, x)
    except Exception as error:
        raise NotApplicable(f"it makes no copies: {told(error)}") from error
    require(first_of(struct_of(shared)) != first_of(struct_of(copied)), "copy=True shares the memory of copy=None")
    require(first_of(struct_of(other)) != first_of(struct_of(copied)), "two copies share memory")
    if library.host_cases:
        reads_right(library, copied, *library.plain)


@case("R53", "producer", "array API: copy=True makes a copy; a library that refuses it with an error shares nothing by mistake", "should")
def copy_true_is_supported(library):
    export(library, library.array(), max_version=ONE, copy=True)


@case("R53", "producer", 'array API: "If False, the function must never copy, and raise a BufferError in case a copy is deemed necessary"')
def false_shares(library):
    x = library.array()
    shared, kept = export(library, x, max_version=ONE), export(library, x, max_version=ONE, copy=False)
    require(first_of(struct_of(shared)) == first_of(struct_of(kept)), "copy=False does not share the memory of copy=None")
    raw = struct_of(kept)
    require(not (isinstance(raw, Versioned) and raw.flags & IS_COPIED), "copy=False has the flag IS_COPIED")


@case("R54", "producer", 'array API: "If False, the function must never copy, and raise a BufferError in case a copy is deemed necessary"')
def a_forbidden_copy_is_a_buffer_or_value_error(library):
    error = refused_export(library, library.array(), max_version=ONE, dl_device=(4, 0), copy=False)
    require(isinstance(error, (BufferError, ValueError)), f"it raised {told(error)}")


@case("R55", "producer", 'array API: "a compliant library should offer a way for __dlpack__ to return a capsule referencing an array whose underlying memory is accessible to the Python interpreter"')
def host_is_a_target(library):
    x = library.array()
    raw = struct_of(export(library, x, max_version=ONE, dl_device=(1, 0)))
    require(elements_of(raw.tensor, library.plain[0]) == numbers(*library.plain), "the tensor on the host has other elements than the array")


@case("R57", "producer", "array API: recommendation for max_version (1, 0) or above", "should")
def versioned_struct_is_available(library):
    capsule = export(library, library.array(), max_version=ONE)
    require(name_of(capsule) == VERSIONED, f"for max_version=(1, 0), it returned a capsule named {name_of(capsule).decode()!r}")


@case("R57", "producer", "array API: the recommended logic returns the version of the producer", "should")
def newer_requests_return_the_own_version(library):
    for version in ((1, 1), (1, 99), (2, 0), (99, 0)):
        capsule = export(library, library.array(), max_version=version)
        require(name_of(capsule) in (VERSIONED, LEGACY), f"the capsule has the name {name_of(capsule)}")
        raw = struct_of(capsule)
        if isinstance(raw, Versioned):
            require(raw.major == 1, f"asked for {version}, it returns version ({raw.major}, {raw.minor})")


@case("R59", "producer", 'Python specification: "Both x and y may continue to be used just like arrays created in other ways."')
def repeated_calls_change_and_leak_nothing(library):
    x = library.array("int32", MEGABYTE)
    references = sys.getrefcount(x)

    def once():
        first = 0
        for arguments in ({"max_version": ONE}, {"max_version": ONE, "copy": True}):
            try:
                capsule = x.__dlpack__(**arguments)
            except BufferError:
                continue
            if "copy" in arguments:
                first = first_of(struct_of(capsule))
                ctypes.memset(first, 1, 1 << 20)
        return first

    library.said = "x.__dlpack__(max_version=(1, 0), copy=…), 200 times, each capsule dropped"
    lies_where_others_lay(once, "each copy was dropped at once")
    gc.collect()
    require(sys.getrefcount(x) - references < 100, f"the array has {sys.getrefcount(x) - references} references more than before")


@case("R60", "producer", 'Python specification: "The producer must set the PyCapsule name to dltensor so that it can be inspected by name"')
def capsules_have_the_right_names(library):
    x = library.array()
    for arguments in ({"max_version": ONE}, {}):
        try:
            capsule = x.__dlpack__(**arguments)
        except BufferError:
            continue
        library.said = f"x.__dlpack__({arguments})"
        require(is_capsule(capsule), f"it returned a {type(capsule).__name__}")
        require(name_of(capsule) in (VERSIONED, LEGACY), f"the capsule has the name {name_of(capsule)}")


@case("R61", "producer", 'Python specification: "set PyCapsule_Destructor that calls the deleter of the DLManagedTensor when the dltensor-named capsule is no longer needed"')
def an_unused_capsule_is_released(library):
    def once():
        capsule = export(library, library.array("int32", MEGABYTE), max_version=ONE)
        first = first_of(struct_of(capsule))
        ctypes.memset(first, 1, 1 << 20)
        return first

    require(capsule_destructor(export(library, library.array(), max_version=ONE)), "the capsule has no destructor")
    lies_where_others_lay(once, "200 capsules of 1 MiB were dropped")


@case("R61", "producer", 'Python specification: "PyCapsule_Destructor calls deleter only for capsules whose name is dltensor"')
def a_consumed_capsule_is_not_released(library):
    dtype, shape = library.plain
    capsule = export(library, library.array(), max_version=ONE)
    raw = take(capsule)
    calls = []
    counting = DELETER(calls.append)
    KEPT.append(counting)
    own = raw.deleter
    raw.deleter = ctypes.cast(counting, ctypes.c_void_p).value
    del capsule
    gc.collect()
    require(not calls, "the destructor of a capsule that was consumed called the deleter")
    found = elements_of(raw.tensor, dtype)
    require(found == numbers(dtype, shape), f"after the capsule had gone, the memory read {found!r}")
    raw.deleter = own
    delete(raw)


@case("R61", "producer", "no specification; numpy#32697, jax#31271: CPython requires that a destructor leaves the exception in flight as it is", "should")
def an_exception_in_flight_is_preserved_by_the_destructor(library):
    x = library.array()

    def one_capsule_then_an_error():
        yield export(library, x, max_version=ONE)
        raise KeyError("in flight")

    for collect in (list, tuple, set):  # the container dies while the error is set
        try:
            collect(one_capsule_then_an_error())
        except KeyError as error:
            require(error.args == ("in flight",), f"it became {told(error)}")
        except BaseException as error:
            if isinstance(error, Broken):
                raise
            raise Broken(f"a capsule died while KeyError was raised, and it became {told(error)}") from error


@case("R65", "producer", 'Python specification: "The DLManagedTensor deleter must ensure that sharing beyond Python boundaries is possible, this means that the GIL must be acquired explicitly"')
def the_deleter_runs_on_any_thread(library):
    for _ in range(20):
        raw = take(export(library, library.array("int32", MEGABYTE), max_version=ONE))
        if raw.deleter:
            on_a_foreign_thread(raw.deleter, ctypes.addressof(raw))


@case("R66", "producer", "no specification; numpy#22510: consumers release tensors while the process ends", "should", alone=True)
def the_deleter_can_run_after_finalisation(library):
    raw = take(export(library, library.array(), max_version=ONE))
    if not raw.deleter:
        raise NotApplicable("there is no deleter")
    if sys.platform == "win32":
        raise NotApplicable("the C library of Windows has no __cxa_atexit")
    at_exit = ctypes.CDLL(None)["__cxa_atexit"]
    at_exit.argtypes = (ctypes.c_void_p,) * 3
    at_exit(raw.deleter, ctypes.addressof(raw), None)
    KEPT.append(raw)  # the interpreter is finalised first; then the C library calls its exit handlers


@case("R67", "producer", "no specification: no caller would check the error", "should")
def the_deleter_sets_no_error(library):
    raw = take(export(library, library.array(), max_version=ONE))
    if raw.deleter:
        ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(raw.deleter)(ctypes.addressof(raw))
    require(not error_occurred(), "a Python error is set after the deleter")


@case("R81", "producer", "array API: BufferError should be raised when the data cannot be exported", "should")
def data_that_cannot_be_exchanged_is_a_buffer_error(library):
    found = []

    def check(x, kind):
        library.said = "x.__dlpack__(max_version=(1, 0))"
        try:
            x.__dlpack__(max_version=ONE)
            return
        except Exception as raised:
            error = raised
        found.append(kind)
        require(isinstance(error, BufferError), f"a {kind} array raises {told(error)}")

    for kind in ("byteswapped", "odd-strides", *NOT_STRIDED, *UNRESOLVED, "gradient", "not-a-number-type"):
        try:
            x = library.special(kind)
        except Exception:
            continue
        library.made = kind
        check(x, kind)
    if not found:
        raise NotApplicable("the plug-in has no array that cannot be exchanged")
