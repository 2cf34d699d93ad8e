// ferry: the reasons why the arguments of a bound function were refused, for the TypeError of the binding library.
#pragma once

#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>

#include <ferry/base/device.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/error.hpp>
#include <ferry/tensor/typed_view.hpp>
#include <ferry/tensor/view.hpp>

#include <concepts>
#include <cstddef>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

namespace ferry::inline v0::python {
namespace detail {

/// A tensor that does not match the element type, rank or access of a parameter. Recorded as values, because
/// formatting a message for each rejected overload would cost more than the call.
struct mismatch {
    data_type actual, expected;
    int rank = 0, expected_rank = 0;

    friend constexpr bool operator==(mismatch const&, mismatch const&) = default;
    /// Returns the message for the first difference: element type, then rank, then access.
    [[nodiscard]] message text() const noexcept {
        if (actual != expected)
            return message{"expected "} << expected << " elements, got " << actual << ": convert the tensor to "
                                        << expected;
        if (rank != expected_rank)
            return message{"expected "} << expected_rank << (expected_rank == 1 ? " dimension" : " dimensions")
                                        << ", got " << rank << ": reshape the tensor";
        return message{"expected a writable tensor, got a read-only one (R11): pass a writable copy"};
    }
};

/// The refusals of the calls in progress on this thread. Recorded only during call_with_reasons.
struct refusals {
    struct entry {
        PyObject* argument;  // borrowed; compared, never dereferenced
        mismatch difference;
        bool is_text;
        message text;
    };
    static constexpr int limit = 8;
    entry list[limit];
    int count = 0;
    int calls = 0;

    [[nodiscard]] FERRY_HIDDEN static refusals& of_thread() noexcept {
        static thread_local constinit refusals recorded{};
        return recorded;
    }
    [[nodiscard]] bool is_recording() const noexcept { return calls != 0 && count != limit; }
};

/// Records why an argument was refused, unless the same reason is recorded for it already.
inline void record(PyObject* argument, mismatch const& difference) noexcept {
    auto& recorded = refusals::of_thread();
    if (!recorded.is_recording()) return;
    for (int i = 0; i < recorded.count; ++i) {
        auto const& other = recorded.list[i];
        if (other.argument == argument && !other.is_text && other.difference == difference) return;
    }
    auto& entry = recorded.list[recorded.count++];
    entry.argument = argument;
    entry.difference = difference;
    entry.is_text = false;
}

/// Records any other reason why an argument was refused. `make_text()`, which returns the message, is called only while
/// refusals are recorded.
template <std::invocable MakeText>
void record(PyObject* argument, MakeText make_text) noexcept {
    auto& recorded = refusals::of_thread();
    if (!recorded.is_recording()) return;
    auto& entry = recorded.list[recorded.count];
    entry.argument = argument;
    entry.is_text = true;
    entry.text = make_text();
    for (int i = 0; i < recorded.count; ++i) {
        auto const& other = recorded.list[i];
        if (other.argument == argument && other.is_text && std::strcmp(other.text.c_str(), entry.text.c_str()) == 0)
            return;
    }
    ++recorded.count;
}

[[nodiscard]] inline message wrong_device(device actual, device expected) noexcept {
    return message{"expected data on "} << name(expected.type) << ":" << expected.id << ", got data on "
                                        << name(actual.type) << ":" << actual.id << ": copy the tensor to "
                                        << name(expected.type) << ":" << expected.id;
}

/// Returns the message for an error of ferry::as<T, Rank, Access, Layout>, addressed to the caller in Python.
[[nodiscard]] inline message view_error(error const& e, tensor_view const& v, access_from required,
                                        layout required_layout) noexcept {
    switch (e.code()) {
        case errc::not_accessible:
            return message{"expected data that "} << (required == access_from::host ? "the host" : "the function")
                                                  << " can read, got data on " << name(v.device().type) << ":"
                                                  << v.device().id << " (R39): copy the tensor to the CPU";
        case errc::strides:
            return message{required_layout == layout::contiguous
                               ? "expected contiguous elements, got non-contiguous ones: pass a contiguous copy"
                               : "expected distinct elements, got repeated ones (R29): pass a copy"};
        case errc::alignment:
            return message{"expected elements aligned for their type, got a misaligned address (R31): pass a copy"};
        default: return message{e.what()};
    }
}

/// Records the current Python error as a reason and clears it, if it is a BufferError, TypeError or ValueError: the
/// producer cannot export the tensor.
/// \throws error_is_set  any other Python error, unchanged
inline void record_python_error(PyObject* argument) {
    bool const refusal = PyErr_ExceptionMatches(PyExc_BufferError) != 0 ||
                         PyErr_ExceptionMatches(PyExc_TypeError) != 0 || PyErr_ExceptionMatches(PyExc_ValueError) != 0;
    if (!refusal) throw error_is_set{};
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    reference const t{type}, v{value}, b{trace};
    reference const str{value != nullptr ? PyObject_Str(value) : nullptr};
    char const* const text = str ? PyUnicode_AsUTF8(str.get()) : nullptr;
    if (text == nullptr) PyErr_Clear();
    record(argument, [&] { return message{text != nullptr ? text : "the producer raised an unprintable error"}; });
}

/// Returns the name of the parameter at an index, from the first signature with that many parameters in the TypeError
/// of the binding library, such as `    1. total(image: tensor[float32, 2], times: int = 1) -> float`. Empty if no
/// signature has them.
[[nodiscard]] inline std::string parameter_name(std::string_view report, std::size_t index) {
    for (auto at = report.find("\n    1. "); at != std::string_view::npos; at = report.find("\n    ", at + 1)) {
        auto const line = report.substr(at + 1, report.find('\n', at + 1) - at - 1);
        auto begin = line.find('(');
        if (begin == std::string_view::npos) continue;
        std::size_t found = 0;
        for (int depth = 0; ++begin < line.size();) {
            char const c = line[begin];
            if (depth == 0 && found == index) {
                auto const end = line.find_first_of(":=,)", begin);
                return end > begin ? std::string{line.substr(begin, end - begin)} : std::string{};
            }
            if (c == '[' || c == '(' || c == '{') ++depth;
            if (c == ']' || c == '}' || (c == ')' && depth > 0)) --depth;
            else if (c == ')') break;
            if (c == ',' && depth == 0) {
                ++found;
                if (begin + 1 < line.size() && line[begin + 1] == ' ') ++begin;
            }
        }
    }
    return {};
}

/// Returns the keyword of an argument; empty for a positional one. `keywords` is a dictionary, or a tuple with the
/// names of `values`.
[[nodiscard]] inline std::string keyword_of(PyObject* argument, PyObject* const* values, PyObject* keywords) {
    PyObject *found = nullptr, *name = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    if (keywords != nullptr && PyDict_Check(keywords) != 0) {
        while (PyDict_Next(keywords, &at, &name, &value) != 0)
            if (value == argument) found = name;
    } else if (keywords != nullptr) {
        for (; at < PyTuple_GET_SIZE(keywords); ++at)
            if (values[at] == argument) found = PyTuple_GET_ITEM(keywords, at);
    }
    char const* const text = found != nullptr ? PyUnicode_AsUTF8(found) : nullptr;
    return text != nullptr ? text : "";
}

/// Appends the recorded reasons, from the index `first` on, to the current TypeError of a call without a matching
/// overload. Any other error is unchanged; so is the TypeError if memory is exhausted.
inline void append_reasons(PyObject* const* arguments, std::size_t positional, PyObject* keywords,
                           refusals const& recorded, int first) noexcept {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    auto const restore = [&] { PyErr_Restore(type, value, trace); };
    if (type != PyExc_TypeError || value == nullptr) return restore();
    reference const text{PyObject_Str(value)};
    char const* const report = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    if (report == nullptr || std::strstr(report, "incompatible function arguments") == nullptr) {
        PyErr_Clear();
        return restore();
    }
    try {
        std::string extended{report};
        while (!extended.empty() && extended.back() == '\n') extended.pop_back();
        extended += '\n';
        for (int i = first; i < recorded.count; ++i) {
            auto const& refused = recorded.list[i];
            std::string name;
            for (std::size_t k = 0; k < positional && name.empty(); ++k)
                if (arguments[k] == refused.argument) name = parameter_name(report, k);
            if (name.empty()) name = keyword_of(refused.argument, arguments + positional, keywords);
            extended += '\n';
            extended += name.empty() ? "an argument" : name;
            extended += ": ";
            extended += refused.is_text ? refused.text.c_str() : refused.difference.text().c_str();
        }
        PyErr_Clear();
        set_error(PyExc_TypeError, extended.c_str());
    } catch (std::bad_alloc const&) {
        return restore();
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

/// Calls a bound function while refusals are recorded, and appends them to its TypeError. Calls may be nested.
template <class Call>
[[nodiscard]] PyObject* call_with_reasons(Call call, PyObject* const* arguments, std::size_t positional,
                                          PyObject* keywords) {
    auto& recorded = refusals::of_thread();
    int const first = recorded.count;
    ++recorded.calls;
    PyObject* const result = call();
    --recorded.calls;
    if (result == nullptr && recorded.count != first) [[unlikely]]
        append_reasons(arguments, positional, keywords, recorded, first);
    recorded.count = first;
    return result;
}

}  // namespace detail
}  // namespace ferry::inline v0::python
