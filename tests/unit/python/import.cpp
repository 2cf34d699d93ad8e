#include "interpreter.hpp"

#include "support/counting_producer.hpp"

#include <ferry/exchange/from_dlpack.hpp>

#include <optional>
#include <string>
#include <vector>

using ferry::device;
using ferry::device_type;
using ferry::stream_token;
using ferry::python::reference;

namespace {

/// What a producer was told, one call after the other, that takes no stream, and moves nothing.
std::string told(ferry::request const& req, std::optional<device> at, bool is_reached = true) {
    support::start_python();
    reference const producer{
        support::eval("(lambda calls: type('P', (), {'calls': calls, '__dlpack__': lambda self, max_version, **how:"
                      " (calls.append(dict(sorted(how.items()))), int('what is this?') if how else 7)[1]}))([])()")};
    try {
        reference const got = ferry::python::detail::ask(producer.get(), req, at,
                                                         is_reached && at && at->type != device_type::cpu);
        CHECK(PyLong_AsLong(got.get()) == 7);
    } catch (ferry::python::error_is_set const&) {
        static_cast<void>(support::taken_error(PyExc_ValueError));
    }
    reference const calls{PyObject_GetAttrString(producer.get(), "calls")}, text{PyObject_Str(calls.get())};
    return PyUnicode_AsUTF8(text.get());
}

constexpr device gpu{device_type::cuda, 0};

}  // namespace

TEST_CASE("R48, R58: the plain request to a producer on the host carries no stream of the wanted device") {
    ferry::request const to_gpu{.device = gpu, .stream = stream_token::cuda_legacy_default()};
    CHECK(told(to_gpu, ferry::cpu) == "[{'dl_device': (2, 0), 'stream': 1}, {}]");
    CHECK(told(to_gpu, std::nullopt) == "[{'dl_device': (2, 0), 'stream': 1}, {'stream': 1}]");
    CHECK(told({.device = gpu, .stream = stream_token::no_sync()}, ferry::cpu) ==
          "[{'dl_device': (2, 0), 'stream': -1}, {}]");
}

TEST_CASE("R56: a producer on a GPU is asked to share, and for no copy and no device") {
    auto const stream = stream_token::from_cuda_handle(64);
    for (auto const type : {device_type::cuda, device_type::cuda_managed}) {
        device const at{type, 1};
        CHECK(told({.device = gpu, .stream = stream}, at) == "[{'stream': 64}]");
        CHECK(told({.device = device{device_type::cuda_host, 0}, .stream = stream}, at) == "[{'stream': 64}]");
        CHECK(told({.copy = ferry::copy_policy::always, .stream = stream}, at) == "[{'stream': 64}]");
        CHECK(told({.device = ferry::cpu}, at) == "[{}]");
        // Without a back end for its device, the producer makes the copy.
        CHECK(told({.device = ferry::cpu}, at, false) == "[{'dl_device': (1, 0)}, {}]");
        CHECK(told({.device = gpu, .copy = ferry::copy_policy::never, .stream = stream}, at) ==
              "[{'copy': False, 'stream': 64}]");
    }
    device const rocm{device_type::rocm, 0};
    CHECK(told({.copy = ferry::copy_policy::always, .stream = stream_token::rocm_handle(64)}, rocm) ==
          "[{'stream': 64}]");
    CHECK(told({.device = gpu, .stream = stream}, rocm) == "[{}]");  // R48: a stream of another family
}

namespace {

/// Reaches all and copies nothing; keeps the streams that the host or another stream waited for.
struct noting {
    std::vector<stream_token>* waited;
    [[nodiscard]] bool reaches(device) const { return true; }
    [[nodiscard]] ferry::buffer<ferry::host_space> allocate(device, std::size_t bytes, stream_token) const {
        return ferry::buffer<ferry::host_space>{bytes};
    }
    void copy(ferry::copy_plan const&, void*, device, void const*, device, stream_token) const {}
    void order(stream_token from, stream_token) const { waited->push_back(from); }
    void wait(stream_token on) const { waited->push_back(on); }
};

constexpr int theirs = 128;

int refuse(void*, DLManagedTensorVersioned**) {
    PyErr_SetString(PyExc_BufferError, "not shared");
    return -1;
}
int say_stream(DLDeviceType, std::int32_t, void** out) {
    *out = reinterpret_cast<void*>(static_cast<std::uintptr_t>(theirs));
    return 0;
}
ferry::abi::exchange_api table{{{1, 3}, nullptr}, nullptr, &refuse, nullptr, nullptr, &say_stream};

/// An object on a GPU that shares nothing, and copies when it is asked to; `calls` keeps what it was asked.
reference unsharing(PyObject* capsule, bool has_table) {
    reference const globals{PyDict_New()};
    reference const ran{PyRun_String("class P:\n"
                                     "    def __init__(self, capsule):\n"
                                     "        self.capsule, self.calls = capsule, []\n"
                                     "    def __dlpack_device__(self):\n"
                                     "        return (2, 0)\n"
                                     "    def __dlpack__(self, max_version, **how):\n"
                                     "        self.calls.append(dict(sorted(how.items())))\n"
                                     "        if how.get('copy'): return self.capsule\n"
                                     "        raise BufferError('not shared')\n",
                                     Py_file_input, globals.get(), globals.get())};
    REQUIRE(ran);
    PyObject* const type = PyDict_GetItemString(globals.get(), "P");
    if (has_table) {
        reference const published{PyCapsule_New(&table, ferry::abi::exchange_api_capsule, nullptr)};
        REQUIRE(PyObject_SetAttrString(type, ferry::abi::exchange_api_attribute, published.get()) == 0);
    }
    return reference{PyObject_CallOneArg(type, capsule)};
}

}  // namespace

TEST_CASE("R56: a copy that only its producer makes is waited for, on its current stream and on the stream passed") {
    support::start_python();
    std::vector<stream_token> waited;
    noting back_end{&waited};
    float elements[6] = {};
    for (bool const has_table : {true, false}) {
        CAPTURE(has_table);
        support::counting_producer p{elements, support::float32, {2, 3}};
        p.raw.dl_tensor.device = gpu.to_abi();
        reference const capsule{ferry::python::detail::make_capsule(&p.raw)};
        reference const producer = unsharing(capsule.get(), has_table);
        REQUIRE(producer);
        ferry::request req{.copy = ferry::copy_policy::always, .stream = stream_token::from_cuda_handle(64)};
        waited.clear();
        try {
            auto const got = ferry::python::detail::fetch_for<ferry::managed_tensor>(producer.get(), req, back_end);
            CHECK(has_table);
            CHECK(got.ready_on == ferry::already_ready);
            CHECK(waited == std::vector{stream_token::from_cuda_handle(theirs), stream_token::from_cuda_handle(64)});
        } catch (ferry::python::error_is_set const&) {
            CHECK_FALSE(has_table);
            CHECK(support::taken_error(PyExc_BufferError).find("on which it would copy it") != std::string::npos);
            CHECK(waited.empty());
        }
        reference const calls{PyObject_GetAttrString(producer.get(), "calls")}, text{PyObject_Str(calls.get())};
        CHECK(std::string{PyUnicode_AsUTF8(text.get())} ==
              (has_table ? "[{'copy': True, 'stream': 64}]" : "[{'stream': 64}]"));
    }
}

TEST_CASE("R44: the tensor of a raw capsule is ready on the default stream, whatever stream the consumer names") {
    support::start_python();
    std::vector<stream_token> waited;
    noting back_end{&waited};
    float elements[6] = {};
    for (auto const copy : {ferry::copy_policy::if_needed, ferry::copy_policy::always}) {
        support::counting_producer p{elements, support::float32, {2, 3}};
        p.raw.dl_tensor.device = gpu.to_abi();
        reference const capsule{ferry::python::detail::make_capsule(&p.raw)};
        waited.clear();
        ferry::request const req{.copy = copy, .stream = stream_token::from_cuda_handle(64)};
        static_cast<void>(ferry::python::from_python<ferry::managed_tensor>(capsule.get(), req, back_end));
        CHECK(waited == std::vector{stream_token::cuda_legacy_default(gpu.id)});
    }
}

TEST_CASE("R81: what was asked for with copy=False is not asked for otherwise") {
    CHECK(told({.device = gpu, .copy = ferry::copy_policy::never, .stream = stream_token::cuda_legacy_default()},
               ferry::cpu) == "[{'copy': False, 'dl_device': (2, 0), 'stream': 1}]");
}

namespace {

/// The keywords of each call of a producer on the host, which refuses every stream, as NumPy does.
std::string heard(ferry::request const& req) {
    support::start_python();
    reference const producer{support::eval(
        "(lambda calls: type('P', (), {'calls': calls, '__dlpack_device__': lambda self: (1, 0),"
        " '__dlpack__': lambda self, **how: (calls.append(dict(sorted(how.items()))), {}[how['stream']] if 'stream' in"
        " how else __import__('array').array('f', [1]))[1]}))([])()")};
    CHECK_THROWS_AS(static_cast<void>(ferry::python::from_python<ferry::managed_tensor>(producer.get(), req)),
                    ferry::python::error_is_set);
    PyErr_Clear();  // what it gave is no capsule
    reference const calls{PyObject_GetAttrString(producer.get(), "calls")}, text{PyObject_Str(calls.get())};
    return PyUnicode_AsUTF8(text.get());
}

}  // namespace

TEST_CASE("R46: a producer on the host hears no stream, not even -1") {
    auto const version = std::string{"[{'max_version': ("} + std::to_string(ferry::version::current.major) + ", " +
                         std::to_string(ferry::version::current.minor) + ")}]";
    CHECK(heard({}) == version);
    CHECK(heard({.stream = ferry::already_ready}) == version);
}

TEST_CASE("R57: the producer hears the version that the request names, and none for the legacy one") {
    CHECK(heard({.max_version = {1, 0}}) == "[{'max_version': (1, 0)}]");
    CHECK(heard({.max_version = ferry::version::legacy}) == "[{}]");
    CHECK(heard({.copy = ferry::copy_policy::always, .max_version = ferry::version::legacy}) == "[{'copy': True}]");
}
