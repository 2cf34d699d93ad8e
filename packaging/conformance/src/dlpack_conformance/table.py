"""Cases of the C exchange API: the table of a type, and the tables that a consumer receives."""

import ctypes
from ctypes import POINTER, PYFUNCTYPE, byref, c_char_p, c_int, c_void_p, py_object

from .case import Broken, NotApplicable, case, require, told
from .dlpack import (
    DTYPES, KEPT, VALUES, Device, DType, Forged, Offer, Tensor, Versioned, capsule_destructor, capsule_new, capsule_pointer,
    delete, dtype_of, elements_of, error_occurred, is_capsule, name_of, shape_of, static_name,
)  # fmt: skip
from .plugin import numbers
from .producer import NOT_STRIDED, UNRESOLVED, exports_what_it_says, special_arrays

TABLE_NAME = b"dlpack_exchange_api"


class Table(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("prev_api", c_void_p), ("allocator", c_void_p),
        ("from_object", c_void_p), ("to_object", c_void_p), ("borrow", c_void_p), ("current_stream", c_void_p),
    ]  # fmt: skip


SET_ERROR = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)
ALLOCATOR = ctypes.CFUNCTYPE(c_int, POINTER(Tensor), POINTER(c_void_p), c_void_p, SET_ERROR)  # called without the GIL
FROM_OBJECT = PYFUNCTYPE(c_int, py_object, POINTER(c_void_p))
TO_OBJECT = PYFUNCTYPE(c_int, c_void_p, POINTER(py_object))
BORROW = PYFUNCTYPE(c_int, py_object, POINTER(Tensor))
CURRENT_STREAM = PYFUNCTYPE(c_int, ctypes.c_int32, ctypes.c_int32, POINTER(c_void_p))


def published(library):
    """Returns the capsule (DLPack 1.3) or the integer (1.2) of the type."""
    kind = type(library.array())
    for name in ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"):
        found = getattr(kind, name, None)
        if found is not None:
            library.said = f"type(x).{name}"
            return found
    raise NotApplicable("its type has no table")


def table_of(library):
    found = published(library)
    if is_capsule(found):
        require(name_of(found) == TABLE_NAME, f"the capsule has the name {name_of(found)}")
        return Table.from_address(capsule_pointer(id(found), static_name(TABLE_NAME)))
    return Table.from_address(int(found))


def fresh(library, shape=(2, 3), dtype="float32", **fields):
    """Calls the allocator with a prototype; returns status, struct and errors."""
    errors = []
    set_error = SET_ERROR(lambda context, kind, message: errors.append((context, kind, message)))
    extents = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    prototype = Tensor(ndim=len(shape), dtype=DType(*(DTYPES[dtype] if isinstance(dtype, str) else dtype)), shape=extents)
    prototype.device = Device(*fields.get("device", library.device))
    table = table_of(library)
    require(table.allocator, "managed_tensor_allocator is NULL")
    library.said = f"managed_tensor_allocator(shape {shape}, dtype {dtype})"
    out = c_void_p()
    status = ALLOCATOR(table.allocator)(byref(prototype), byref(out), 0x1234, set_error)
    return status, out.value, errors


@case("R69", "table", 'header: "This attribute must be set on the type as a Python PyCapsule with name dlpack_exchange_api."')
def the_table_is_in_a_named_capsule(library):
    found = published(library)
    if isinstance(found, int):
        raise NotApplicable("its table is an integer, as in 1.2")
    require(is_capsule(found), f"it is a {type(found).__name__}")
    require(name_of(found) == TABLE_NAME, f"the capsule has the name {name_of(found)}")
    require(not capsule_destructor(found), "the capsule has a destructor, but the table is valid until the process ends")


@case("R70", "table", 'header: "It must be NULL if the framework does not support older versions."')
def the_header_has_a_version_and_an_end(library):
    table, seen = table_of(library), 0
    require(table.major == 1, f"the version is ({table.major}, {table.minor})")
    previous = table.prev_api
    while previous and seen < 100:
        previous, seen = Table.from_address(previous).prev_api, seen + 1
    require(seen < 100, "the chain of prev_api has no end")


@case("R71", "table", 'header: "This function must not be NULL."')
def only_one_member_may_be_null(library):
    table = table_of(library)
    for member in ("allocator", "from_object", "to_object", "current_stream"):
        require(getattr(table, member), f"the member {member} is NULL")


@case("R72", "table", 'header: "Only the dtype, ndim, shape, and device fields are used."')
def the_allocator_follows_the_prototype(library):
    status, address, errors = fresh(library)
    require(status == 0 and address and not errors, f"it returned {status} and reported {errors}")
    raw = Versioned.from_address(address)
    require(shape_of(raw.tensor) == (2, 3) and dtype_of(raw.tensor) == DTYPES["float32"], "the tensor does not match the prototype")
    if library.device[0] == 1:
        ctypes.memset(raw.tensor.data + raw.tensor.byte_offset, 0, 24)
    delete(raw)


@case("R72", "table", 'header: "SetError is called exactly when NULL is returned (the implementer must ensure this)."')
def a_failed_allocation_calls_set_error(library):
    for fields in ({"dtype": (99, 32, 1)}, {"device": (99, 0)}):
        status, address, errors = fresh(library, **fields)
        if status == 0:
            raise Broken(f"it returned 0 for {fields}")
        require(len(errors) == 1, f"it returned {status} and called SetError {len(errors)} times")
        require(errors[0][0] == 0x1234, "SetError was called with another context")
        require(not error_occurred(), "it set a Python error itself")


def exported_by_table(library, x):
    table, out = table_of(library), c_void_p()
    library.said = "managed_tensor_from_py_object_no_sync(x)"
    status = FROM_OBJECT(table.from_object)(x, byref(out))
    require(status == 0 and out.value, f"it returned {status}")
    return Versioned.from_address(out.value)


@case("R73", "table", 'header: "The owning DLManagedTensorVersioned* or NULL on failure with a Python exception set."')
def an_exported_object_owns_its_memory(library):
    import gc

    x = library.array("int32", (2, 3))
    raw = exported_by_table(library, x)
    del x
    gc.collect()
    require(raw.major == 1, f"the version is ({raw.major}, {raw.minor})")
    if library.device[0] == 1:
        found = elements_of(raw.tensor, "int32")
        require(found == numbers("int32", (2, 3)), f"it reads {found}")
    delete(raw)


@case("R73", "table", 'header: "The owning DLManagedTensorVersioned* or NULL on failure with a Python exception set."')
def an_object_that_cannot_be_exchanged_is_a_python_error(library):
    table, out = table_of(library), c_void_p()
    try:
        x = library.special("sparse")
    except Exception as error:
        raise NotApplicable("the plug-in has no array of its own type that cannot be exchanged") from error
    if type(x) is not type(library.array()):
        raise NotApplicable("the array that cannot be exchanged has another type")
    library.said = "managed_tensor_from_py_object_no_sync(sparse)"
    try:
        status = FROM_OBJECT(table.from_object)(x, byref(out))
    except SystemError as error:
        raise Broken(f"status and error disagree: {told(error)}") from error
    except Exception:
        return
    raise Broken(f"it returned {status} and set no error")


@case("R41", "table", 'header: "If the data cannot be described using DLPack this should be a BufferError if possible."')
def special_arrays_are_resolved_or_refused_by_the_table(library):
    """Also by the member that borrows: a conjugated, negated, sparse, meta or quantized array is no plain memory."""
    table = table_of(library)
    members = {"managed_tensor_from_py_object_no_sync": table.from_object, "dltensor_from_py_object_no_sync": table.borrow}
    own = type(library.array())
    for kind, x in special_arrays(library, (*NOT_STRIDED, *UNRESOLVED)):
        if type(x) is not own:
            continue
        for name, member in members.items():
            if not member:
                continue
            library.said, owned, lent = f"{name}(x)", c_void_p(), Tensor()
            try:
                status = FROM_OBJECT(member)(x, byref(owned)) if member == table.from_object else BORROW(member)(x, byref(lent))
            except SystemError as error:
                raise Broken(f"status and error disagree: {told(error)}") from error
            except Exception:
                continue
            require(status == 0, f"it returned {status} and set no error")
            require(kind in UNRESOLVED, f"a {kind} array was exported as memory of dtype {dtype_of(lent) if not owned else ''}")
            raw = Versioned.from_address(owned.value) if owned.value else Versioned(tensor=lent)
            exports_what_it_says(library, kind, x, raw)


@case("R74", "table", 'header: "The DLManagedTensorVersioned to convert the ownership of the tensor is stolen."')
def an_imported_tensor_is_released_once(library):
    if library.device[0] != 1:
        raise NotApplicable("the tensor of the case is on the host")
    table, forged, out = table_of(library), Forged(), py_object()
    library.said = "managed_tensor_to_py_object_no_sync(int32 (2, 3))"
    status = TO_OBJECT(table.to_object)(ctypes.addressof(forged.raw), byref(out))
    require(status == 0, f"it returned {status}")
    made = out.value
    ctypes.memset(byref(out), 0, ctypes.sizeof(out))  # the reference in `out` is the one in `made` from here on
    ctypes.pythonapi.Py_DecRef(py_object(made))
    require(library.values(made) == VALUES, f"it reads {library.values(made)}")
    require(forged.deletions == 0, "the deleter has run while the object was in use")
    del made
    require(forged.deletions == 1, f"the deleter ran {forged.deletions} times")


@case("R75", "table", 'header: "The producer (implementer) still owns the memory of data, strides, shape."')
def an_object_is_exported_for_one_call(library):
    table = table_of(library)
    if not table.borrow:
        raise NotApplicable("dltensor_from_py_object_no_sync is NULL, as it may be")
    x, lent = library.array("int32", (2, 3)), Tensor()
    library.said = "dltensor_from_py_object_no_sync(x)"
    status = BORROW(table.borrow)(x, byref(lent))
    require(status == 0, f"it returned {status}")
    require(shape_of(lent) == (2, 3) and dtype_of(lent) == DTYPES["int32"], "the tensor does not match the array")
    if library.device[0] == 1:
        require(elements_of(lent, "int32") == numbers("int32", (2, 3)), "the tensor has other memory than the array")


@case("R76", "table", 'header: "When device_type is kDLCPU, the consumer do not have to query the stream and the producer can simply return NULL when queried."')
def the_current_stream_of_the_host_is_no_error(library):
    table, out = table_of(library), c_void_p()
    library.said = "current_work_stream(kDLCPU, 0)"
    status = CURRENT_STREAM(table.current_stream)(1, 0, byref(out))
    require(status == 0, f"it returned {status}")
    require(not error_occurred(), "it set a Python error")


@case("R77", "table", 'header: "As a C function, must not thrown C++ exceptions."')
def an_object_of_another_type_is_a_python_error(library):
    table, out = table_of(library), c_void_p()
    library.said = "managed_tensor_from_py_object_no_sync(object())"
    try:
        status = FROM_OBJECT(table.from_object)(object(), byref(out))
    except SystemError as error:
        raise Broken(f"status and error disagree: {told(error)}") from error
    except Exception:
        return
    raise Broken(f"it returned {status} for an object that is not an array")


def with_table(**members):
    """A type with a table of another version, whose members must not be called."""
    calls = []

    @PYFUNCTYPE(c_int, c_void_p, c_void_p)
    def called(*_):
        calls.append(1)
        return -1

    address = ctypes.cast(called, c_void_p).value
    table = Table(**{**dict.fromkeys(["allocator", "from_object", "to_object", "borrow", "current_stream"], address), **members})
    KEPT.extend([called, table])

    class WithTable(Offer):
        __dlpack_c_exchange_api__ = capsule_new(ctypes.addressof(table), static_name(TABLE_NAME), None)

    return WithTable(), calls


@case("R70", "consumer", 'header: "the consumer must check major version compatibility before using this struct"')
def a_table_of_another_major_version_is_not_used(library):
    offered, calls = with_table(major=2)
    library.said, library.offered = f"{library.call}(x)", "an object whose type has a table of version (2, 0)"
    try:
        array = library.take(offered)
    except Exception:
        require(not calls, "it called a member of a table of version (2, 0)")
        return
    require(not calls, "it called a member of a table of version (2, 0)")
    require(library.values(array) == VALUES, f"it reads {library.values(array)}")


@case("R71", "consumer", 'header: "This function can be NULL when the producer does not support this function."')
def the_member_that_may_be_null_is_not_called(library):
    """The other members work: the table exports a forged tensor."""
    forged = []

    @PYFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))
    def from_object(_, out):
        forged.append(Forged())
        out[0] = ctypes.addressof(forged[-1].raw)
        return 0

    @PYFUNCTYPE(c_int, ctypes.c_int32, ctypes.c_int32, POINTER(c_void_p))
    def current_stream(_, __, out):
        out[0] = None
        return 0

    def member(function):
        KEPT.append(function)
        return ctypes.cast(function, c_void_p).value

    offered, _ = with_table(
        major=1, minor=3, borrow=None, from_object=member(from_object), current_stream=member(current_stream)
    )
    library.said, library.offered = f"{library.call}(x)", "an object whose type has a table without dltensor_from_py_object_no_sync"
    try:
        array = library.take(offered)
    except SystemError as error:
        raise Broken(f"it left an inconsistent Python error indicator: {told(error)}") from error
    except Exception as error:
        raise Broken(f"it refused the tensor: {told(error)}") from error
    require(library.values(array) == VALUES, f"it reads {library.values(array)}")
