// A back end whose operations return a result, in imports from Python and exports to it.
#pragma GCC diagnostic error "-Wunused-result"  // of all headers

#include "interpreter.hpp"

#include "support/counting_producer.hpp"
#include "support/no_owner.hpp"

#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/python/column_dlpack.hpp>
#include <ferry/python/detail/column_array_interface.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace {

using ferry::device;
using ferry::device_type;
using ferry::stream_token;
using ferry::python::reference;

constexpr device gpu{device_type::cuda, 0};
constexpr std::intptr_t producer_stream = 128;
float elements[6] = {1, 2, 3, 4, 5, 6};

/// Simulates devices in host memory. The operation whose name is `failing` returns an error.
struct returning_back_end {
    static inline std::string failing;
    static inline int live = 0;  // guards

    struct guard {
        bool is_live = true;
        guard() { ++live; }
        guard(guard&& other) noexcept : is_live{std::exchange(other.is_live, false)} {}
        ~guard() { live -= is_live ? 1 : 0; }
    };
    using memory = ferry::buffer<ferry::host_space>;

    [[nodiscard]] static ferry::result<> called(char const* name) {
        if (failing == name) return ferry::error{ferry::errc::driver, "sim", ferry::message{"injected: "} << name};
        return {};
    }
    [[nodiscard]] bool reaches(device) const { return true; }
    [[nodiscard]] ferry::result<memory> allocate(device, std::size_t bytes, stream_token) const {
        if (auto const done = called("allocate"); !done) return done.error();
        return memory{bytes};
    }
    [[nodiscard]] ferry::result<> copy(ferry::copy_plan const& plan, void* dst, device, void const* src, device,
                                       stream_token) const {
        ferry::copy_on_host(plan, dst, src);
        return called("copy");
    }
    [[nodiscard]] ferry::result<> order(stream_token, stream_token) const { return called("order"); }
    [[nodiscard]] ferry::result<> wait(stream_token) const { return called("wait"); }
    [[nodiscard]] ferry::result<guard> make_current(device) const {
        if (auto const done = called("make_current"); !done) return done.error();
        return guard{};
    }
    [[nodiscard]] ferry::result<std::optional<ferry::python::detail::imported>> import_other_protocol(PyObject*) const {
        using ferry::python::detail::imported;
        if (auto const done = called("import_other_protocol"); !done) return done.error();
        std::int64_t const six[] = {6};
        imported got{ferry::make_managed(support::no_owner{}, ferry::tensor_view{elements, six, {}, gpu}),
                     stream_token::from_cuda_handle(producer_stream)};
        return std::optional<imported>{std::move(got)};
    }
};
static_assert(ferry::python::detail::selects_device<returning_back_end>);
static_assert(ferry::python::detail::imports_other_protocol<returning_back_end>);

/// Checks that the call succeeds, and that it fails with the error of each of these operations.
template <class Call>
void fails_at(std::initializer_list<char const*> operations, Call call) {
    returning_back_end::failing.clear();
    call();
    for (auto const* const name : operations) {
        CAPTURE(std::string{name});
        returning_back_end::failing = name;
        bool has_failed = false;
        try {
            call();
        } catch (ferry::error const& e) {
            has_failed = e.code() == ferry::errc::driver && std::strstr(e.what(), name) != nullptr;
        }
        CHECK(has_failed);
        CHECK(PyErr_Occurred() == nullptr);
        CHECK(returning_back_end::live == 0);
    }
    returning_back_end::failing.clear();
}

int refuse(void*, DLManagedTensorVersioned**) {
    PyErr_SetString(PyExc_BufferError, "not shared");
    return -1;
}
int return_stream(DLDeviceType, std::int32_t, void** out) {
    *out = reinterpret_cast<void*>(producer_stream);
    return 0;
}
ferry::abi::exchange_api table{{{1, 3}, nullptr}, nullptr, &refuse, nullptr, nullptr, &return_stream};

/// An object on a GPU whose `__dlpack__` returns the capsule; with `copies`, only for copy=True.
reference producer_of(PyObject* capsule, bool copies) {
    reference const globals{PyDict_New()};
    reference const ran{
        PyRun_String("class P:\n"
                     "    def __init__(self, capsule, copies):\n"
                     "        self.capsule, self.copies = capsule, copies\n"
                     "    def __dlpack_device__(self):\n"
                     "        return (2, 0)\n"
                     "    def __dlpack__(self, max_version=None, stream=None, copy=None, dl_device=None):\n"
                     "        if copy or not self.copies: return self.capsule\n"
                     "        raise BufferError('not shared')\n",
                     Py_file_input, globals.get(), globals.get())};
    REQUIRE(ran);
    PyObject* const type = PyDict_GetItemString(globals.get(), "P");
    if (copies) {
        reference const published{PyCapsule_New(&table, ferry::abi::exchange_api_capsule, nullptr)};
        REQUIRE(PyObject_SetAttrString(type, ferry::abi::exchange_api_attribute, published.get()) == 0);
    }
    return reference{PyObject_CallFunctionObjArgs(type, capsule, copies ? Py_True : Py_False, nullptr)};
}
/// Imports an object with six floats on a GPU; its deleter must run once.
void import_gpu(ferry::request const& req, bool copies) {
    support::counting_producer p{elements, support::float32, {2, 3}};
    p.raw.dl_tensor.device = gpu.to_abi();
    auto const import = [&] {
        reference const capsule{ferry::python::detail::make_capsule(&p.raw)};
        reference const producer = producer_of(capsule.get(), copies);
        static_cast<void>(ferry::python::from_python<ferry::managed_tensor>(producer.get(), req, returning_back_end{}));
    };
    try {
        import();
    } catch (...) {
        CHECK(p.deleter_calls == 1);
        throw;
    }
    CHECK(p.deleter_calls == 1);
}

}  // namespace

TEST_CASE("an import from Python fails with the error of each operation that a back end returns") {
    support::start_python();
    auto const mine = stream_token::from_cuda_handle(64);
    fails_at({"make_current", "allocate", "copy", "wait"}, [] { import_gpu({.device = ferry::cpu}, false); });
    fails_at({"make_current", "allocate", "copy"},
             [&] { import_gpu({.copy = ferry::copy_policy::always, .stream = mine}, false); });
    // The producer makes the copy, for which the host waits.
    fails_at({"make_current", "wait"}, [&] { import_gpu({.copy = ferry::copy_policy::always, .stream = mine}, true); });
}

TEST_CASE("an import through another protocol fails with the error that a back end returns") {
    support::start_python();
    reference const object{support::eval("object()")};
    fails_at({"import_other_protocol", "order"}, [&] {
        ferry::request const req{.stream = stream_token::from_cuda_handle(64)};
        static_cast<void>(ferry::python::from_python<ferry::managed_tensor>(object.get(), req, returning_back_end{}));
    });
}

TEST_CASE("a column from __cuda_array_interface__ fails with the error of each operation that a back end returns") {
    support::start_python();
    auto const address = std::to_string(reinterpret_cast<std::uintptr_t>(elements));
    auto const text =
        "type('X', (), {'__cuda_array_interface__': {'version': 3, 'shape': (3,), 'typestr': '<f4', 'strides': (8,), "
        "'data': (" +
        address + ", False), 'stream': 128}})()";
    reference const object{support::eval(text.c_str())};
    returning_back_end b;
    auto const import = [&](stream_token on) {
        auto const c = ferry::python::detail::column_of_array(object.get(), [](void const*) { return gpu; }, b, on);
        CHECK(c->length() == 3);
    };
    fails_at({"wait", "allocate", "copy"}, [&] { import({}); });
    fails_at({"order", "allocate", "copy", "wait"}, [&] { import(stream_token::from_cuda_handle(64)); });
    for (auto const& bad :
         {stream_token::from_cuda_handle(0), stream_token::rocm_default(), stream_token::cuda_legacy_default(1)}) {
        returning_back_end::failing = "order";  // R43: refused before any operation
        bool is_refused = false;
        try {
            import(bad);
        } catch (ferry::error const& e) {
            is_refused = e.code() == ferry::errc::stream;
        }
        CHECK(is_refused);
        returning_back_end::failing.clear();
    }
}

TEST_CASE("a column exported to Python fails with the error of each operation that a back end returns") {
    support::start_python();
    unsigned char const bits[] = {0b10110};
    ferry::column_buffer const buffers[] = {{}, {bits, 1}};
    auto const c = ferry::make_column({.format = "b", .length = 5, .buffers = buffers}, nullptr, gpu);
    returning_back_end b;
    fails_at({"copy", "allocate"}, [&] {
        reference const capsule{ferry::python::detail::export_column_capsule(c, {}, b)};
        CHECK(capsule);
    });
}

TEST_CASE("R43: the interface of a column refuses a stream that the device of the column does not use") {
    support::start_python();
    ferry::column_buffer const buffers[] = {{}, {elements, sizeof elements}};
    auto const c = ferry::make_column({.format = "f", .length = 6, .buffers = buffers}, nullptr, gpu);
    bool is_refused = false;
    try {
        reference const facts{ferry::python::detail::describe_column(c, stream_token::cuda_legacy_default(1), Py_None)};
    } catch (ferry::error const& e) {
        is_refused = e.code() == ferry::errc::stream;
    }
    CHECK(is_refused);
}
