#include "interpreter.hpp"

#include "support/counting_producer.hpp"

#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/python/detail/call_dlpack.hpp>
#include <support/fails.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using ferry::device;
using ferry::device_type;
using ferry::stream_token;
using ferry::python::reference;

namespace {

template <class BackEnd>
ferry::python::detail::imported import_tensor(PyObject* x, ferry::request const& req, BackEnd& b) {
    ferry::python::detail::imported got;
    ferry::python::detail::import_any(x, req, ferry::python::detail::importer_for<ferry::managed_tensor>(b), got);
    return got;
}

/// The keywords of each call of a producer that takes no stream and moves no data.
std::string calls_of(ferry::request const& req, std::optional<device> at, bool is_reached = true) {
    support::start_python();
    reference const producer{
        support::eval("(lambda calls: type('P', (), {'calls': calls, '__dlpack__': lambda self, max_version, **how:"
                      " (calls.append(dict(sorted(how.items()))), int('what is this?') if how else 7)[1]}))([])()")};
    try {
        bool const copied_here = is_reached && at && at->type != device_type::cpu;
        reference const got = ferry::python::detail::request_capsule(producer.get(), req, at, copied_here);
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
    CHECK(calls_of(to_gpu, ferry::cpu) == "[{'dl_device': (2, 0), 'stream': 1}, {}]");
    CHECK(calls_of(to_gpu, std::nullopt) == "[{'dl_device': (2, 0), 'stream': 1}, {'stream': 1}]");
    CHECK(calls_of({.device = gpu, .stream = stream_token::no_sync()}, ferry::cpu) ==
          "[{'dl_device': (2, 0), 'stream': -1}, {}]");
}

TEST_CASE("R44, R45: a producer on a GPU gets the default stream where the request has none") {
    CHECK(calls_of({}, gpu) == "[{'stream': 1}]");
    CHECK(calls_of({.device = ferry::cpu}, gpu) == "[{'stream': 1}]");
    CHECK(calls_of({.copy = ferry::copy_policy::never}, gpu) == "[{'copy': False, 'stream': 1}]");
    CHECK(calls_of({}, device{device_type::rocm, 0}) == "[{'stream': 0}]");
    CHECK(calls_of({.stream = stream_token::no_sync()}, gpu) == "[{'stream': -1}]");
    CHECK(calls_of({}, device{device_type::cuda_managed, 0}) == "[{}]");  // R49: its producer waits
    CHECK(calls_of({.device = ferry::cpu}, gpu, false) == "[{'dl_device': (1, 0)}, {}]");  // R48
}

TEST_CASE("R44, R58: a producer on a GPU without the keyword stream is called without it, unless one was requested") {
    support::start_python();
    reference const producer{
        support::eval("(lambda calls: type('P', (), {'calls': calls, '__dlpack__': lambda self, **how:"
                      " (calls.append(sorted(how)), len(how and '' + 1) if how else 7)[1]})())([])")};
    reference const got = ferry::python::detail::request_capsule(producer.get(), {}, gpu, true);
    CHECK(PyLong_AsLong(got.get()) == 7);
    ferry::request const with_stream{.stream = stream_token::from_cuda_handle(64)};
    CHECK_THROWS_AS(static_cast<void>(ferry::python::detail::request_capsule(producer.get(), with_stream, gpu, true)),
                    ferry::python::error_is_set);
    static_cast<void>(support::taken_error(PyExc_TypeError));
    reference const calls{PyObject_GetAttrString(producer.get(), "calls")}, text{PyObject_Str(calls.get())};
    CHECK(std::string{PyUnicode_AsUTF8(text.get())} ==
          "[['max_version', 'stream'], ['stream'], [], ['max_version', 'stream'], ['stream']]");
}

TEST_CASE("R56: a producer on a GPU is asked to share, and for no copy and no device") {
    auto const stream = stream_token::from_cuda_handle(64);
    for (auto const type : {device_type::cuda, device_type::cuda_managed}) {
        device const at{type, 1};
        CHECK(calls_of({.device = gpu, .stream = stream}, at) == "[{'stream': 64}]");
        CHECK(calls_of({.device = device{device_type::cuda_host, 0}, .stream = stream}, at) == "[{'stream': 64}]");
        CHECK(calls_of({.copy = ferry::copy_policy::always, .stream = stream}, at) == "[{'stream': 64}]");
        // Without a back end for its device, the producer makes the copy.
        CHECK(calls_of({.device = ferry::cpu, .stream = stream_token::no_sync()}, at) == "[{'stream': -1}]");
        CHECK(calls_of({.device = ferry::cpu}, at, false) == "[{'dl_device': (1, 0)}, {}]");
        CHECK(calls_of({.device = gpu, .copy = ferry::copy_policy::never, .stream = stream}, at) ==
              "[{'copy': False, 'stream': 64}]");
    }
    device const rocm{device_type::rocm, 0};
    CHECK(calls_of({.copy = ferry::copy_policy::always, .stream = stream_token::rocm_handle(64)}, rocm) ==
          "[{'stream': 64}]");
    CHECK(calls_of({.device = gpu, .stream = stream}, rocm) == "[{}]");  // R48: a stream of another family
}

namespace {

/// Supports every device and copies nothing; records the streams that the host or another stream waited for.
struct recording_back_end {
    std::vector<stream_token>* waited;
    [[nodiscard]] bool reaches(device) const { return true; }
    [[nodiscard]] ferry::buffer<ferry::host_space> allocate(device, std::size_t bytes, stream_token) const {
        return ferry::buffer<ferry::host_space>{bytes};
    }
    void copy(ferry::copy_plan const&, void*, device, void const*, device, stream_token) const {}
    void order(stream_token from, stream_token) const { waited->push_back(from); }
    void wait(stream_token on) const { waited->push_back(on); }
};

constexpr int current_stream = 128;

int refuse(void*, DLManagedTensorVersioned**) {
    PyErr_SetString(PyExc_BufferError, "not shared");
    return -1;
}
int return_stream(DLDeviceType, std::int32_t, void** out) {
    *out = reinterpret_cast<void*>(static_cast<std::uintptr_t>(current_stream));
    return 0;
}
ferry::abi::exchange_api table{{{1, 3}, nullptr}, nullptr, &refuse, nullptr, nullptr, &return_stream};

/// An object on a GPU that does not share, and copies on request; `calls` has the keywords of each call.
reference copying_producer(PyObject* capsule, bool has_table) {
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
    recording_back_end back_end{&waited};
    float elements[6] = {};
    for (bool const has_table : {true, false}) {
        CAPTURE(has_table);
        support::counting_producer p{elements, support::float32, {2, 3}};
        p.raw.dl_tensor.device = gpu.to_abi();
        reference const capsule{ferry::python::detail::make_capsule(&p.raw)};
        reference const producer = copying_producer(capsule.get(), has_table);
        REQUIRE(producer);
        ferry::request const req{.copy = ferry::copy_policy::always, .stream = stream_token::from_cuda_handle(64)};
        waited.clear();
        try {
            auto const got = import_tensor(producer.get(), req, back_end);
            CHECK(has_table);
            CHECK(got.ready_on == ferry::already_ready);
            CHECK(waited ==
                  std::vector{stream_token::from_cuda_handle(current_stream), stream_token::from_cuda_handle(64)});
        } catch (ferry::python::error_is_set const&) {
            CHECK_FALSE(has_table);
            auto const text = support::taken_error(PyExc_BufferError);
            CHECK(text.find("the stream on which it would copy is unknown") != std::string::npos);
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
    recording_back_end back_end{&waited};
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

namespace {

/// Exports the capsules of a list in turn; `calls` has the keywords of each call.
reference producer_of(PyObject* capsules, char const* announced) {
    reference const globals{PyDict_New()};
    std::string const code = std::string{"class P:\n"
                                         "    def __init__(self, capsules):\n"
                                         "        self.capsules, self.calls = capsules, []\n"
                                         "    def __dlpack_device__(self):\n"
                                         "        return "} +
                             announced +
                             "\n"
                             "    def __dlpack__(self, max_version, **how):\n"
                             "        self.calls.append(dict(sorted(how.items())))\n"
                             "        return self.capsules.pop(0)\n";
    reference const ran{PyRun_String(code.c_str(), Py_file_input, globals.get(), globals.get())};
    REQUIRE(ran);
    return reference{PyObject_CallOneArg(PyDict_GetItemString(globals.get(), "P"), capsules)};
}

/// The keywords of the calls of an import from a producer whose tensors are on `actual`, and the stream on which the
/// result is ready.
template <class BackEnd>
std::pair<std::string, stream_token> imported_from(char const* announced, device actual, ferry::request const& req,
                                                   BackEnd& b, std::size_t count = 2) {
    support::start_python();
    float elements[6] = {};
    std::vector<std::unique_ptr<support::counting_producer>> tensors;
    reference const capsules{PyList_New(0)};
    for (std::size_t i = 0; i < count; ++i) {
        tensors.emplace_back(new support::counting_producer{elements, support::float32, {2, 3}});
        auto& p = *tensors.back();
        p.raw.dl_tensor.device = actual.to_abi();
        reference const capsule{ferry::python::detail::make_capsule(&p.raw)};
        REQUIRE(PyList_Append(capsules.get(), capsule.get()) == 0);
    }
    reference const producer = producer_of(capsules.get(), announced);
    REQUIRE(producer);
    stream_token ready;
    {
        auto const got = import_tensor(producer.get(), req, b);
        CHECK(got.tensor.device() == actual);
        ready = got.ready_on;
    }
    reference const calls{PyObject_GetAttrString(producer.get(), "calls")}, text{PyObject_Str(calls.get())};
    return {PyUnicode_AsUTF8(text.get()), ready};
}

}  // namespace

TEST_CASE("R38, R44: a GPU tensor that was not announced is requested again, on a stream of its device") {
    std::vector<stream_token> waited;
    recording_back_end back_end{&waited};
    device const second{device_type::cuda, 1};
    auto const ready = stream_token::cuda_legacy_default(second.id);
    for (char const* announced : {"(1, 0)", "(2, 0)", "(10, 1)", "None"}) {
        CAPTURE(announced);
        auto const [calls, on] =
            imported_from(announced, second, {.copy = ferry::copy_policy::always}, back_end);
        CHECK(calls.ends_with(", {'stream': 1}]"));
        CHECK(on == ready);
    }
    CHECK(imported_from("(1, 0)", second, {.copy = ferry::copy_policy::always}, back_end).first ==
          "[{'copy': True}, {'stream': 1}]");
    CHECK(imported_from("(1, 0)", second, {.device = gpu}, back_end).first == "[{'dl_device': (2, 0)}, {'stream': 1}]");
    // Without a reason to ask for the device, the capsule tells it.
    CHECK(imported_from("1 / 0", second, {}, ferry::host_only) == std::pair{std::string{"[{}, {'stream': 1}]"}, ready});
    CHECK(waited.empty());
}

TEST_CASE("R59: a type that exported GPU memory is asked for its device, and then exports once; others are not asked") {
    support::start_python();
    reference const globals{PyDict_New()};
    reference const ran{PyRun_String("class P:\n"
                                     "    def __dlpack_device__(self):\n"
                                     "        calls.append('device')\n"
                                     "        return device\n"
                                     "    def __dlpack__(self, max_version, **how):\n"
                                     "        calls.append(how)\n"
                                     "        return capsules.pop(0)\n",
                                     Py_file_input, globals.get(), globals.get())};
    REQUIRE(ran);
    reference const producer{PyObject_CallNoArgs(PyDict_GetItemString(globals.get(), "P"))};
    float elements[6] = {};
    auto const calls_for = [&](device at) {
        support::counting_producer first{elements, support::float32, {2, 3}};
        support::counting_producer second{elements, support::float32, {2, 3}};
        first.raw.dl_tensor.device = second.raw.dl_tensor.device = at.to_abi();
        reference const calls{PyList_New(0)}, place{Py_BuildValue("(ii)", static_cast<int>(at.type), at.id)},
            capsules{Py_BuildValue("[NN]", ferry::python::detail::make_capsule(&first.raw),
                                   ferry::python::detail::make_capsule(&second.raw))};
        PyDict_SetItemString(globals.get(), "calls", calls.get());
        PyDict_SetItemString(globals.get(), "device", place.get());
        PyDict_SetItemString(globals.get(), "capsules", capsules.get());
        auto const got =
            import_tensor(producer.get(), {}, ferry::host_only);
        CHECK(got.tensor.device() == at);
        PyDict_SetItemString(globals.get(), "capsules", Py_None);  // releases the capsule that was not used
        reference const text{PyObject_Str(calls.get())};
        return std::string{PyUnicode_AsUTF8(text.get())};
    };
    for (int i = 0; i < 3; ++i) CHECK(calls_for(ferry::cpu) == "[{}]");
    CHECK(calls_for(gpu) == "[{}, {'stream': 1}]");
    for (int i = 0; i < 3; ++i) CHECK(calls_for(gpu) == "['device', {'stream': 1}]");
    CHECK(calls_for(ferry::cpu) == "['device', {}]");
}

TEST_CASE("R38: a tensor where it was announced or requested is not requested again") {
    std::vector<stream_token> waited;
    recording_back_end back_end{&waited};
    CHECK(imported_from("(2, 0)", gpu, {.copy = ferry::copy_policy::always}, back_end).first == "[{'stream': 1}]");
    CHECK(imported_from("(1, 0)", gpu, {.device = gpu}, back_end).first == "[{'dl_device': (2, 0)}]");
    CHECK(imported_from("(2, 0)", ferry::cpu, {.device = ferry::cpu}, back_end).first == "[{'stream': 1}]");
    CHECK(imported_from("(1, 0)", ferry::cpu, {}, back_end).first == "[{}]");
}

namespace {

/// Records the devices that were made current, and imports any object.
struct selecting_back_end : ferry::host_back_end {
    std::vector<device>* selected = nullptr;
    int make_current(device dev) const { return selected->push_back(dev), 0; }
    [[nodiscard]] std::optional<ferry::python::detail::imported> import_other_protocol(PyObject*) const {
        return ferry::python::detail::imported{ferry::managed_tensor{}, ferry::already_ready};
    }
};

}  // namespace

TEST_CASE("R42: destination selects devices and imports by other protocols as the back end underneath does") {
    support::start_python();
    std::vector<device> selected;
    selecting_back_end const underneath{{}, &selected};
    ferry::destination const b{ferry::host_space{}, underneath};
    static_assert(ferry::python::detail::selects_device<decltype(b)>);
    static_assert(ferry::python::detail::imports_other_protocol<decltype(b)>);
    static_assert(!ferry::python::detail::selects_device<ferry::destination<ferry::host_space>>);
    static_assert(!ferry::python::detail::imports_other_protocol<ferry::destination<ferry::host_space>>);
    static_cast<void>(imported_from("(2, 1)", device{device_type::cuda, 1}, {}, b));
    CHECK(selected == std::vector{device{device_type::cuda, 1}});
    reference const object{support::eval("object()")};
    CHECK(import_tensor(object.get(), {}, b).ready_on ==
          ferry::already_ready);
}

namespace {

struct one_block_space : ferry::host_space {
    void const* block = nullptr;
    [[nodiscard]] bool contains(ferry::tensor_view const& v) const { return v.data() == block; }
};

}  // namespace

TEST_CASE("D9: with placement::exact, an import shares only what the space contains, and requires a space") {
    support::start_python();
    float x = 7;
    std::int64_t const shape[] = {1};
    auto const capsule = [&] {
        return reference{ferry::python::to_capsule(
            ferry::to_dlpack(ferry::tensor_view{&x, shape}, {.copy = ferry::copy_policy::always}))};
    };
    ferry::request const req{.placement = ferry::placement::exact};
    using ferry::python::from_python, ferry::python::try_from_python;
    for (bool const is_inside : {false, true}) {
        auto first = capsule(), second = capsule();
        auto const data_of = [](reference const& c) {
            return ferry::python::detail::look_into(c.get(), ferry::flags::none)->data();
        };
        void const* const addresses[] = {data_of(first), data_of(second)};
        one_block_space space;
        if (is_inside) space.block = addresses[0];
        auto const got = from_python<ferry::managed_tensor>(first.get(), req, ferry::destination{space});
        CHECK((got.view().data() == addresses[0]) == is_inside);
        if (is_inside) space.block = addresses[1];
        auto const tried = try_from_python<ferry::managed_tensor>(second.get(), req, ferry::destination{space});
        CHECK((tried.value().view().data() == addresses[1]) == is_inside);
        CHECK(tried.value().as<float, 1>()(0) == 7);
    }
    auto const refused = capsule();
    support::fails(ferry::errc::argument, [&] { static_cast<void>(from_python<ferry::managed_tensor>(refused.get(), req)); },
                   {"placement::exact needs a memory space"});
    auto const other = capsule();
    CHECK(try_from_python<ferry::managed_tensor>(other.get(), req).error().code() == ferry::errc::argument);
}

TEST_CASE("R58: a producer on the host that asserts to get no stream is called again for a shared tensor") {
    support::start_python();
    reference const producer{support::eval(
        "(lambda calls: type('P', (), {'calls': calls, '__dlpack__': lambda self, **how:"
        " (calls.append(sorted(how)), exec('assert 0') if 'stream' in how else 7)[1]})())([])")};
    ferry::request const to_gpu{.device = gpu, .stream = stream_token::cuda_legacy_default()};
    reference const got = ferry::python::detail::request_capsule(producer.get(), to_gpu, ferry::cpu, false);
    CHECK(PyLong_AsLong(got.get()) == 7);
    reference const calls{PyObject_GetAttrString(producer.get(), "calls")}, text{PyObject_Str(calls.get())};
    CHECK(std::string{PyUnicode_AsUTF8(text.get())} == "[['dl_device', 'max_version', 'stream'], ['max_version']]");
}

TEST_CASE("R81: a request with copy=False is not repeated without it") {
    CHECK(calls_of({.device = gpu, .copy = ferry::copy_policy::never, .stream = stream_token::cuda_legacy_default()},
               ferry::cpu) == "[{'copy': False, 'dl_device': (2, 0), 'stream': 1}]");
}

namespace {

/// The keywords of each call of a producer on the host, which rejects every stream, as NumPy does.
std::string calls_on_host(ferry::request const& req) {
    support::start_python();
    reference const producer{support::eval(
        "(lambda calls: type('P', (), {'calls': calls, '__dlpack_device__': lambda self: (1, 0),"
        " '__dlpack__': lambda self, **how: (calls.append(dict(sorted(how.items()))), {}[how['stream']] if 'stream' in"
        " how else __import__('array').array('f', [1]))[1]}))([])()")};
    CHECK_THROWS_AS(static_cast<void>(ferry::python::from_python<ferry::managed_tensor>(producer.get(), req)),
                    ferry::python::error_is_set);
    PyErr_Clear();  // its result is not a capsule
    reference const calls{PyObject_GetAttrString(producer.get(), "calls")}, text{PyObject_Str(calls.get())};
    return PyUnicode_AsUTF8(text.get());
}

}  // namespace

TEST_CASE("R46: a producer on the host gets no stream, not even -1") {
    auto const version = std::string{"[{'max_version': ("} + std::to_string(ferry::version::current.major) + ", " +
                         std::to_string(ferry::version::current.minor) + ")}]";
    CHECK(calls_on_host({}) == version);
    CHECK(calls_on_host({.stream = ferry::already_ready}) == version);
}

TEST_CASE("R57: the producer gets the version of the request, and none for the legacy one") {
    CHECK(calls_on_host({.max_version = {1, 0}}) == "[{'max_version': (1, 0)}]");
    CHECK(calls_on_host({.max_version = ferry::version::legacy}) == "[{}]");
    CHECK(calls_on_host({.copy = ferry::copy_policy::always, .max_version = ferry::version::legacy}) ==
          "[{'copy': True}]");
}
