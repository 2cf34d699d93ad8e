// ferry: why an argument was refused, kept until the framework reports that no overload took it.
#pragma once

#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>

#include <ferry/base/device.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/error.hpp>
#include <ferry/tensor/view.hpp>

#include <concepts>
#include <cstddef>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

namespace ferry::inline v0::python {
namespace detail {

/// What overloads are told apart by: as facts, because to write a sentence for each overload that
/// is not meant would cost more than the call.
struct mismatch {
    data_type is, wanted;
    int rank = 0, wanted_rank = 0;

    friend constexpr bool operator==(mismatch const&, mismatch const&) = default;
    [[nodiscard]] message text() const noexcept {
        if (is != wanted) return message{"its elements are "} << is << ", and " << wanted << " is wanted";
        if (rank != wanted_rank)
            return message{"it has "} << rank << " dimensions, and " << wanted_rank << " are wanted";
        return message{"it is read-only, and the function writes to it (R11)"};
    }
};

/// The refusals of the calls that this thread is in. Noted only while somebody listens: see
/// `listening`.
struct refusals {
    struct entry {
        PyObject* argument;  // compared, never touched
        mismatch missed;
        bool is_text;
        message text;
    };
    static constexpr int limit = 8;
    entry list[limit];
    int count = 0;
    int listeners = 0;

    [[nodiscard]] FERRY_HIDDEN static refusals& here() noexcept {
        static thread_local constinit refusals noted{};
        return noted;
    }
    [[nodiscard]] bool hear() const noexcept { return listeners != 0 && count != limit; }
};

inline void note(PyObject* argument, mismatch const& missed) noexcept {
    auto& noted = refusals::here();
    if (!noted.hear()) return;
    for (int i = 0; i < noted.count; ++i) {
        auto const& other = noted.list[i];
        if (other.argument == argument && !other.is_text && other.missed == missed) return;
    }
    auto& entry = noted.list[noted.count++];
    entry.argument = argument;
    entry.missed = missed;
    entry.is_text = false;
}

/// `why()` makes the message, which nobody may want.
template <std::invocable Why>
void note(PyObject* argument, Why why) noexcept {
    auto& noted = refusals::here();
    if (!noted.hear()) return;
    auto& entry = noted.list[noted.count];
    entry.argument = argument;
    entry.is_text = true;
    entry.text = why();
    for (int i = 0; i < noted.count; ++i) {
        auto const& other = noted.list[i];
        if (other.argument == argument && other.is_text && std::strcmp(other.text.c_str(), entry.text.c_str()) == 0)
            return;
    }
    ++noted.count;
}

[[nodiscard]] inline message elsewhere(device is, device wanted) noexcept {
    return message{"its data is on "} << name(is.type) << ":" << is.id << ", and " << name(wanted.type) << ":"
                                      << wanted.id << " is wanted";
}

/// What ferry::as found, as a caller in Python needs to hear it.
[[nodiscard]] inline message misfit(error const& e, tensor_view const& v) noexcept {
    switch (e.code()) {
        case errc::not_accessible:
            return message{"its data is on "} << name(v.device().type) << ":" << v.device().id
                                              << ", which the function cannot read (R39)";
        case errc::strides:
            return message{
                "its elements repeat or are not contiguous, which the function does not take "
                "(R29): pass a copy"};
        case errc::alignment: return message{"its first element is not aligned for its type (R31): pass a copy"};
        default: return message{e.what()};
    }
}

/// Notes the Python error that is set, when it says that the data cannot travel, and clears it.
/// Others go through.
inline void note_error(PyObject* argument) {
    bool const refusal = PyErr_ExceptionMatches(PyExc_BufferError) != 0 ||
                         PyErr_ExceptionMatches(PyExc_TypeError) != 0 || PyErr_ExceptionMatches(PyExc_ValueError) != 0;
    if (!refusal) throw error_is_set{};
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    reference const t{type}, v{value}, b{trace};
    reference const text{value != nullptr ? PyObject_Str(value) : nullptr};
    char const* const said = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    if (said == nullptr) PyErr_Clear();
    note(argument, [&] { return message{said != nullptr ? said : "its producer refused"}; });
}

/// The name of the parameter at a place, out of the first signature with so many in the report of
/// the framework, such as `    1. total(image: tensor[float32, 2], times: int = 1) -> float`.
[[nodiscard]] inline std::string parameter_name(std::string_view report, std::size_t place) {
    for (auto at = report.find("\n    1. "); at != std::string_view::npos; at = report.find("\n    ", at + 1)) {
        auto const line = report.substr(at + 1, report.find('\n', at + 1) - at - 1);
        auto begin = line.find('(');
        if (begin == std::string_view::npos) continue;
        std::size_t found = 0;
        for (int depth = 0; ++begin < line.size();) {
            char const c = line[begin];
            if (depth == 0 && found == place) {
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

/// The keyword that an argument came by: `keywords` is a dictionary, or a tuple of the names of
/// `values`.
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

/// Adds to the TypeError of a call that no overload took what each argument was refused for.
inline void explain(PyObject* const* arguments, std::size_t positional, PyObject* keywords, refusals const& noted,
                    int first) noexcept {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    auto const leave = [&] { PyErr_Restore(type, value, trace); };
    if (type != PyExc_TypeError || value == nullptr) return leave();
    reference const text{PyObject_Str(value)};
    char const* const report = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    if (report == nullptr || std::strstr(report, "incompatible function arguments") == nullptr) {
        PyErr_Clear();
        return leave();
    }
    try {
        std::string longer{report};
        while (!longer.empty() && longer.back() == '\n') longer.pop_back();
        longer += '\n';
        for (int i = first; i < noted.count; ++i) {
            auto const& refused = noted.list[i];
            std::string name;
            for (std::size_t k = 0; k < positional && name.empty(); ++k)
                if (arguments[k] == refused.argument) name = parameter_name(report, k);
            if (name.empty()) name = keyword_of(refused.argument, arguments + positional, keywords);
            longer += '\n';
            longer += name.empty() ? "an argument" : name;
            longer += ": ";
            longer += refused.is_text ? refused.text.c_str() : refused.missed.text().c_str();
        }
        PyErr_Clear();
        set_error(PyExc_TypeError, longer.c_str());
    } catch (std::bad_alloc const&) {
        return leave();
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

/// Runs a call, and explains it when it fails.
template <class Call>
[[nodiscard]] PyObject* listening(Call call, PyObject* const* arguments, std::size_t positional, PyObject* keywords) {
    auto& noted = refusals::here();
    int const first = noted.count;
    ++noted.listeners;
    PyObject* const result = call();
    --noted.listeners;
    if (result == nullptr && noted.count != first) [[unlikely]]
        explain(arguments, positional, keywords, noted, first);
    noted.count = first;
    return result;
}

}  // namespace detail
}  // namespace ferry::inline v0::python
