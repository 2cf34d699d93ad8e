// ferry: exports columns through Arrow's PyCapsule interface.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/detail/arrow_capsule.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/gil.hpp>
#include <ferry/python/object.hpp>

#include <ferry/arrow/chunked.hpp>
#include <ferry/arrow/device.hpp>
#include <ferry/arrow/from_schema.hpp>
#include <ferry/arrow/to_arrow.hpp>
#include <ferry/column/as.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/type.hpp>
#include <ferry/column/view.hpp>

#include <source_location>
#include <utility>

namespace FERRY_NAMESPACE::python {
namespace detail {

/// Returns a new tuple of two objects.
[[nodiscard]] inline PyObject* pair_of(reference first, reference second) {
    PyObject* const pair = PyTuple_New(2);
    if (pair == nullptr) throw error_is_set{};
    set_item(pair, 0, first.release());
    set_item(pair, 1, second.release());
    return pair;
}

/// Checks that a requested schema describes the same data, possibly in another representation. The widths of numbers
/// and times, the encodings of text and bytes, the layouts of lists, and the use of dictionaries and run-end encoding
/// may differ; the number of fields may not.
class schema_request {
   public:
    schema_request(char const* method, std::source_location where) noexcept : method_{method}, where_{where} {}

    /// Checks a column and its children.
    /// \throws error  errc::argument: the schema describes other data
    void require(column_view requested, column_view c, ferry::detail::column_path const& path) const {
        requested = decoded(requested);
        c = decoded(c);
        if (requested.type().id == type_id::null || c.type().id == type_id::null) return;
        if (kind_of(requested.type().id) != kind_of(c.type().id))
            refuse(path, message{"format "} << c.name_of_format() << ", got " << requested.name_of_format());
        if (requested.child_count() != c.child_count())
            refuse(path, message{} << c.child_count() << " children, got " << requested.child_count());
        for (int i = 0; i < c.child_count(); ++i) {
            auto const child = c.child(i);
            require(requested.child(i), child, ferry::detail::column_path{path, c.type().id, i, child.name()});
        }
    }

   private:
    enum class kind { number, bytes, list, structure, choice };
    [[nodiscard]] static constexpr kind kind_of(type_id id) noexcept {
        if (id < type_id::fixed_size_binary) return kind::number;
        if (id < type_id::list) return kind::bytes;
        if (id < type_id::structure || id == type_id::map) return kind::list;
        return id == type_id::structure ? kind::structure : kind::choice;  // a union
    }
    /// Returns the values of a dictionary or run-end encoded column, and any other column unchanged.
    [[nodiscard]] static column_view decoded(column_view c) {
        for (;;) {
            if (c.has_dictionary()) c = c.dictionary();
            else if (c.type().id == type_id::run_end_encoded) c = c.child(1);
            else return c;
        }
    }
    [[noreturn]] FERRY_COLD void refuse(ferry::detail::column_path const& path, message const& what) const {
        ferry::detail::fail(errc::argument, method_,
                            message{"requested_schema: "}
                                << path << ": expected " << what
                                << ": request another representation of the same data, or None, and cast the result",
                            where_);
    }

    char const* method_;
    std::source_location where_;
};

/// Returns a column as a consumer requested it: as_requested, and the column if `capsule` is null, because the consumer
/// requested none. Releases the GIL during a conversion.
/// \throws error_is_set  TypeError: not a capsule with a schema
/// \throws error  errc::bad_column: an invalid schema;  argument: the schema describes other data
[[nodiscard]] inline column requested_column(char const* method, column c, PyObject* capsule) {
    if (capsule == nullptr) return c;
    auto const where = std::source_location::current();
    auto const read = [&] {
        critical_section const alone{capsule};
        return from_arrow_schema(struct_in<ArrowSchema>(capsule, "requested_schema"), where);
    };
    column const expected = read();
    schema_request{method, where}.require(expected.view(), c.view(), ferry::detail::column_path{c.name()});
    without_gil const released;
    return as_requested(c, expected.view(), where);
}

/// Reads the arguments of `__arrow_c_array__(requested_schema=None)` and `__arrow_c_device_array__`. With
/// `allow_keywords`, keywords of later versions of the protocol are accepted if their value is None.
/// \return  the capsule of the requested schema, or null; borrowed
/// \throws error_is_set  TypeError: a wrong argument;  NotImplementedError: an unknown keyword with a value
[[nodiscard]] inline PyObject* parse_arrow_arguments(char const* method, PyObject* const* args, Py_ssize_t positional,
                                                     PyObject* keywords, bool allow_keywords) {
    if (positional > 1) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most one positional argument, requested_schema", method);
        throw error_is_set{};
    }
    PyObject* requested = positional == 1 ? args[0] : Py_None;
    Py_ssize_t const count = keywords != nullptr ? tuple_size(keywords) : 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* const name = tuple_item(keywords, i);
        PyObject* const value = args[positional + i];
        if (positional == 0 && PyUnicode_CompareWithASCIIString(name, "requested_schema") == 0) {
            requested = value;
        } else if (!allow_keywords || PyUnicode_CompareWithASCIIString(name, "requested_schema") == 0) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", method, name);
            throw error_is_set{};
        } else if (value != Py_None) {
            PyErr_Format(PyExc_NotImplementedError, "%s() does not support the keyword argument '%U': pass None",
                         method, name);
            throw error_is_set{};
        }
    }
    return requested != Py_None ? requested : nullptr;
}

/// Exports a column or chunks by to_arrow.
template <arrow_struct T, class Source>
[[nodiscard]] reference capsule_of(Source const& source) {
    T made{};
    to_arrow(source, &made);
    return make_arrow_capsule(made);
}

}  // namespace detail

/// Returns the type of a column as a new "arrow_schema" capsule. Requires the GIL.
///
/// \param c  column; only its type is read
/// \return   new reference
/// \throws error_is_set    the capsule cannot be created
/// \throws std::bad_alloc  when an allocation fails
[[nodiscard]] inline PyObject* arrow_schema_capsule(column_view c) {
    ArrowSchema schema{};
    to_arrow_schema(c, &schema);
    return detail::make_arrow_capsule(schema).release();
}

/// Returns a new pair of capsules, "arrow_schema" and "arrow_array", which share the memory of a column in host memory
/// and keep it alive. Requires the GIL.
///
/// \param c  column
/// \return   new reference to a tuple
/// \throws error_is_set    the capsules cannot be created
/// \throws error           errc::not_accessible: the host cannot read the memory
/// \throws std::bad_alloc  when an allocation fails
[[nodiscard]] inline PyObject* arrow_array_capsules(column const& c) {
    auto second = detail::capsule_of<ArrowArray>(c);
    return detail::pair_of(reference{arrow_schema_capsule(c.view())}, std::move(second));
}

/// Returns a new pair of capsules, "arrow_schema" and "arrow_device_array", which share the memory of a column on any
/// device and keep it alive. The data of a column is ready, so `sync_event` is NULL. Requires the GIL.
///
/// \param c  column
/// \return   new reference to a tuple
/// \throws error_is_set    the capsules cannot be created
/// \throws std::bad_alloc  when an allocation fails
[[nodiscard]] inline PyObject* arrow_device_array_capsules(column const& c) {
    auto second = detail::capsule_of<ArrowDeviceArray>(c);
    return detail::pair_of(reference{arrow_schema_capsule(c.view())}, std::move(second));
}

/// Returns a new "arrow_array_stream" capsule that owns a stream. Requires the GIL.
///
/// \param stream  stream; moved from, and released on failure
/// \return        new reference
/// \throws error_is_set    the capsule cannot be created
/// \throws std::bad_alloc  when an allocation fails
[[nodiscard]] inline PyObject* arrow_stream_capsule(ArrowArrayStream& stream) {
    return detail::make_arrow_capsule(stream).release();
}

/// Returns a new "arrow_array_stream" capsule of chunks in host memory, whose memory it shares. Requires the GIL.
///
/// \param c  chunks
/// \return   new reference
/// \throws error_is_set    the capsule cannot be created
/// \throws error           errc::not_accessible: the host cannot read a chunk
/// \throws std::bad_alloc  when an allocation fails
[[nodiscard]] inline PyObject* arrow_stream_capsule(chunked const& c) {
    return detail::capsule_of<ArrowArrayStream>(c).release();
}

/// Returns a new "arrow_device_array_stream" capsule of chunks on devices of one type, whose memory it shares. The data
/// is ready, so `sync_event` of the chunks is NULL. Requires the GIL.
///
/// \param c  chunks
/// \return   new reference
/// \throws error_is_set    the capsule cannot be created
/// \throws error           errc::device: chunks on different types of devices
/// \throws std::bad_alloc  when an allocation fails
[[nodiscard]] inline PyObject* arrow_device_stream_capsule(chunked const& c) {
    return detail::capsule_of<ArrowDeviceArrayStream>(c).release();
}

}  // namespace FERRY_NAMESPACE::python
