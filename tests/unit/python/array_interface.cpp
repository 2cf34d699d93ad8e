// `__cuda_array_interface__` of arrays that are said to be in CUDA memory.
#include "interpreter.hpp"

#include <ferry/python/detail/array_interface.hpp>

#include <support/fails.hpp>

#include <cstdint>
#include <string>

namespace {

/// An array in CUDA memory that nothing accesses.
struct described {
    ferry::tensor_view view;
    ferry::stream_token ready = ferry::already_ready;
};

}  // namespace

template <>
struct ferry::array_traits<described> {
    static tensor_view view(described const& d) { return d.view; }
    static stream_token ready_on(described const& d) { return d.ready; }
};

namespace {

/// Returns the entry `data` of a matrix of two rows: its second item states whether the data is read-only.
bool is_read_only(std::int64_t rows, std::int64_t const (&strides)[2], ferry::flags bits = ferry::flags::none) {
    static float memory[6] = {};
    std::int64_t const shape[] = {rows, 3};
    described const d{
        {static_cast<void*>(memory), ferry::dtype_of<float>, shape, strides, {ferry::device_type::cuda, 0}, bits}};
    ferry::python::reference const dict{ferry::python::detail::describe_for_cuda(d)};
    REQUIRE(dict);
    return PyTuple_GetItem(PyDict_GetItemString(dict.get(), "data"), 1) == Py_True;
}

}  // namespace

TEST_CASE("R11, R29: the array interface of read-only elements, and of repeated elements, is read-only") {
    support::start_python();
    CHECK_FALSE(is_read_only(2, {3, 1}));
    CHECK(is_read_only(2, {3, 1}, ferry::flags::read_only));
    CHECK(is_read_only(2, {0, 1}));
    CHECK_FALSE(is_read_only(1, {0, 1}));  // R27
    CHECK_FALSE(is_read_only(0, {0, 1}));  // R26
}

TEST_CASE("R43, R44: the array interface refuses a null stream and a stream of another device") {
    support::start_python();
    static float memory[2] = {};
    std::int64_t const shape[] = {2};
    using ferry::stream_token;
    struct {
        stream_token ready;
        char const* text;
    } const rows[] = {{stream_token::from_cuda_handle(0), "R44"},
                      {stream_token::rocm_default(), "belongs to rocm"},
                      {stream_token::cuda_legacy_default(1), "cuda:1"}};
    for (auto const& [ready, text] : rows) {
        described const d{
            {static_cast<void*>(memory), ferry::dtype_of<float>, shape, {}, {ferry::device_type::cuda, 0}}, ready};
        support::fails(ferry::errc::stream,
                       [&] { ferry::python::reference const dict{ferry::python::detail::describe_for_cuda(d)}; },
                       {text});
    }
}
