// The Python interface in an embedded interpreter: capsules of any name, used in any order (R60–R63, R68), and
// arguments of any kind (R44–R46, R52, R57, R81). A refusal sets a Python error and leaves the capsule unchanged; an
// import does neither.
#include "bytes.hpp"

#include <ferry/python.hpp>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace {

namespace py = ferry::python;
using py::reference;

constexpr int slots = 3;

/// A struct of a producer, of either kind, that counts the calls of its deleter; a member of the producer.
struct producer {
    DLManagedTensorVersioned versioned{};
    DLManagedTensor legacy{};
    std::int64_t shape[2] = {2, 3};
    int deleted = 0;

    explicit producer(bool is_sound) {
        static float elements[6];
        DLTensor const t{elements, {kDLCPU, 0}, is_sound ? 2 : -1, {kDLFloat, 32, 1}, shape, nullptr, 0};
        versioned = {{1, 0},
                     this,
                     [](DLManagedTensorVersioned* raw) { ++static_cast<producer*>(raw->manager_ctx)->deleted; },
                     0,
                     t};
        legacy = {t, this, [](DLManagedTensor* raw) { ++static_cast<producer*>(raw->manager_ctx)->deleted; }};
    }
};

enum class content : std::uint8_t { versioned, legacy, used, foreign };

/// A capsule and its properties.
struct slot {
    std::optional<producer> from;
    reference capsule;
    std::optional<ferry::managed_tensor> tensor;
    content holds = content::foreign;
    bool is_sound = false;

    /// Releases everything: the deleter has run once, unless the capsule is of another library.
    void clear() {
        if (!from) return;
        tensor.reset();
        capsule = reference{};
        HOLDS(from->deleted == (holds == content::foreign ? 0 : 1));
        from.reset();
    }

    void make(fuzz::bytes& in) {
        clear();
        auto const what = in.below(8);
        is_sound = in.below(4) != 0;
        from.emplace(is_sound);
        if (what < 3) {
            holds = content::versioned;
            capsule = reference{py::detail::make_capsule(&from->versioned)};
        } else if (what < 6) {
            holds = content::legacy;
            capsule = reference{py::detail::make_capsule(&from->legacy)};
        } else {  // of another library: already used, with another name, or without one
            constexpr char const* names[] = {"used_dltensor", "used_dltensor_versioned", "dltensor2", "", nullptr};
            holds = content::foreign;
            capsule = reference{PyCapsule_New(&from->legacy, names[in.below(5)], nullptr)};
        }
        HOLDS(capsule && PyErr_Occurred() == nullptr);
    }

    void take() {
        if (!capsule) return;
        bool const fresh = holds == content::versioned || holds == content::legacy;
        if (!fresh) {
            auto const refused = py::try_from_capsule(capsule.get());
            HOLDS(!refused && PyErr_Occurred() == nullptr);
            fuzz::saw(refused.error().code());
        }
        try {
            auto got = py::from_capsule(capsule.get());
            HOLDS(fresh && is_sound && !tensor && PyErr_Occurred() == nullptr);
            HOLDS(got.is_read_only() == (holds == content::legacy));  // R15
            tensor.emplace(std::move(got));
            holds = content::used;
        } catch (py::error_is_set const&) {
            HOLDS(!fresh && PyErr_ExceptionMatches(PyExc_ValueError) != 0);
            PyErr_Clear();
        } catch (ferry::error const& e) {
            fuzz::saw(e.code());
            HOLDS(fresh && !is_sound && PyErr_Occurred() == nullptr);
            HOLDS(from->deleted == 1);  // R62: imported, so released
            holds = content::used;
        }
    }
};

/// Valid and invalid arguments.
reference object(fuzz::bytes& in, int depth = 0) {
    switch (in.below(12)) {
        case 0: return reference{Py_NewRef(Py_None)};
        case 1: return reference{Py_NewRef(Py_True)};
        case 2: return reference{Py_NewRef(Py_False)};
        case 3:
        case 4: return reference{PyLong_FromLong(in.take<std::int8_t>())};
        case 5: return reference{PyLong_FromLongLong(in.take<std::int64_t>())};
        case 6:
            return reference{
                PyLong_FromString(in.flip() ? "18446744073709551616" : "-9223372036854775809", nullptr, 10)};
        case 7: return reference{PyFloat_FromDouble(in.take<std::int8_t>())};
        case 8: {
            constexpr std::string_view texts[] = {
                "cpu", "cuda", "cuda:1", "cuda:", "cuda_host", "rocm:99999999999", "", "cpu:0:0", {"cpu\0x", 5}};
            auto const text = texts[in.below(9)];
            return reference{PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()))};
        }
        default: {
            auto const n = depth > 2 ? 0u : in.below(8) < 6 ? 2u : in.below(4);
            bool const list = in.flip();
            reference items{list ? PyList_New(n) : PyTuple_New(n)};
            for (unsigned i = 0; i < n; ++i) {
                auto* const item = object(in, depth + 1).release();
                if (list) PyList_SET_ITEM(items.get(), i, item);
                else PyTuple_SET_ITEM(items.get(), i, item);
            }
            return items;
        }
    }
}

/// R81: a Python error of a class that consumers catch, or a valid request.
void parse(fuzz::bytes& in) {
    reference const stream = object(in), max_version = object(in), dl_device = object(in), copy = object(in);
    auto const type = static_cast<ferry::device_type>(in.below(22));
    try {
        auto const req = py::to_request(
            py::convert_arguments({stream.get(), max_version.get(), dl_device.get(), copy.get()}), ferry::device{type});
        HOLDS(PyErr_Occurred() == nullptr);
        HOLDS(req.copy == ferry::copy_policy::if_needed || PyBool_Check(copy.get()) != 0);
        HOLDS(req.device.has_value() == (dl_device.get() != Py_None));
        auto const target = req.device ? req.device->type : type;
        HOLDS(target != ferry::device_type::cpu || !req.stream.names_stream());
        HOLDS(!uses_cuda_streams(target) || !req.stream.is_ambiguous());  // R44
        HOLDS(req.max_version.is_legacy() || PyTuple_Check(max_version.get()) != 0 ||
              PyList_Check(max_version.get()) != 0);
    } catch (py::error_is_set const&) {
        // R52: only a max_version that is neither None nor a pair of integers is a TypeError.
        HOLDS(PyErr_ExceptionMatches(PyExc_ValueError) != 0 ||
              (PyErr_ExceptionMatches(PyExc_TypeError) != 0 && max_version.get() != Py_None));
        PyErr_Clear();
    }
    auto const place = py::as_device(dl_device.get());
    HOLDS(place.has_value() == (PyErr_Occurred() == nullptr));
    if (!place) HOLDS(PyErr_ExceptionMatches(PyExc_ValueError) != 0);
    PyErr_Clear();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
    Py_InitializeEx(0);
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    fuzz::bytes in{data, size};
    slot all[slots];
    for (int steps = 0; steps < 32 && !in.is_empty(); ++steps) {
        auto& one = all[in.below(slots)];
        switch (in.below(8)) {
            case 0:
            case 1: one.make(in); break;
            case 2:
            case 3:
            case 4: one.take(); break;
            case 5: one.capsule = reference{}; break;
            case 6: one.tensor.reset(); break;
            default: parse(in);
        }
        HOLDS(PyErr_Occurred() == nullptr);
    }
    for (auto& one : all) one.clear();
    return 0;
}
