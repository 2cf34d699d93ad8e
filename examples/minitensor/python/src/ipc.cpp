// Sharing with other processes: ipc_share, ipc_attach and Shared.
#include "convert.hpp"

#include <ferry/column.hpp>
#include <ferry/ipc.hpp>
#include <ferry/python.hpp>
#include <ferry/wire/binary.hpp>
#include <ferry/wire/json.hpp>
#ifdef MINITENSOR_HAS_CUDA
#include <ferry/cuda/ipc.hpp>
#endif
#include "minitensor_ferry.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace mt::python {
namespace {

using namespace nb::literals;
using adapter = ferry::array_traits<tensor>;

/// The sessions of this process, for named and for frozen memory. Never destroyed, because tensors may outlive the
/// interpreter; `close_all` runs when the interpreter ends.
ferry::ipc::session& session(bool is_frozen) {
    static auto& named = *new ferry::ipc::session;
    static auto& frozen = *new ferry::ipc::session{{.segments = ferry::ipc::segment_kind::anonymous}};
    return is_frozen ? frozen : named;
}

auto& back_end() {
#ifdef MINITENSOR_HAS_CUDA
    static auto& one = *new ferry::cuda::shareable<>;
    return one;
#else
    return ferry::host_only;
#endif
}

/// The Python object of a share.
class shared {
   public:
    shared(nb::object x, ferry::ipc::shared s) : share_{std::move(s)}, tensor_{std::move(x)} {}

    [[nodiscard]] nb::bytes descriptor() const {
        auto const bytes = ferry::wire::to_bytes(share_.descriptor());
        return nb::bytes{bytes.data(), bytes.size()};
    }
    [[nodiscard]] std::string json() const { return ferry::wire::to_json(share_.descriptor()); }
    [[nodiscard]] nb::object tensor() const { return tensor_; }
    [[nodiscard]] bool copied() const { return static_cast<bool>(share_.copied()); }
    [[nodiscard]] std::vector<int> files() const {
        auto all = share_.files();
        std::erase(all, -1);
        return all;
    }
    void close() {
        if (!share_.close() && PyErr_WarnEx(PyExc_ResourceWarning, "the name stays in /dev/shm: this process may no longer remove it", 1) != 0)
            throw nb::python_error{};
    }

   private:
    ferry::ipc::shared share_;
    nb::object tensor_;  // the shared memory in this process
};

/// Returns a Python list of what a list has; null: an error is set.
nb::object list_of(std::vector<ferry::ipc::item>&& items, ferry::stream_token on) {
    auto all = nb::list();
    for (auto& one : items) {
        auto* const c = std::get_if<ferry::column>(&one);
        auto* const made = c != nullptr ? new_object(std::move(*c)) : new_object(adapter::adopt(std::get<ferry::managed_tensor>(std::move(one)), on));
        if (made == nullptr) throw nb::python_error{};
        all.append(nb::steal(made));
    }
    return std::move(all);
}

shared share_list(nb::object x, bool freeze) {
    std::vector<ferry::ipc::item> items;
    ferry::ipc::share_options options{.freeze = freeze};
    bool is_frozen = freeze;
    for (nb::handle const one : x) {
        auto const* const t = tensor_in(one);
        auto const* const c = column_in(one);
        if (t == nullptr && c == nullptr) throw nb::type_error("ipc_share: expected a list of Tensors and Columns");
        is_frozen |= c != nullptr ? is_sealed(*c) : is_sealed(*t);
        if (c != nullptr) items.emplace_back(*c);
        else items.emplace_back(ferry::to_dlpack(*t, {}, back_end()));  // in order after its stream on the default stream
        if (t != nullptr && adapter::view(*t).device().type == ferry::device_type::cuda)
            options.ready_on = ferry::stream_token::cuda_legacy_default();
    }
    options.session = &session(is_frozen);
    auto made = [&] {
        ferry::python::without_gil const unlocked;
        return ferry::ipc::share(std::move(items), options, back_end());
    }();
    x = made.copied() ? list_of(ferry::ipc::attach_list(made.descriptor(), {.session = options.session}, back_end()), ferry::already_ready)
                      : nb::object(nb::list(x));
    return {std::move(x), std::move(made)};
}

shared ipc_share(nb::object x, bool freeze) {
    if (nb::isinstance<nb::list>(x) || nb::isinstance<nb::tuple>(x)) return share_list(std::move(x), freeze);
    auto const* const t = tensor_in(x);
    auto const* const c = column_in(x);
    if (t == nullptr && c == nullptr)
        throw nb::type_error("ipc_share: expected a Tensor, a Column or a list of them: create one with mt.asarray, mt.from_dlpack or mt.Column.from_arrow");
    auto made = [&] {
        ferry::python::without_gil const unlocked;
        bool const is_frozen = freeze || (c != nullptr ? is_sealed(*c) : is_sealed(*t));
        ferry::ipc::share_options const options{.session = &session(is_frozen), .freeze = freeze};
        return c != nullptr ? ferry::ipc::share(*c, options, back_end()) : ferry::ipc::share(*t, options, back_end());
    }();
    if (made.copied()) {
        x = nb::steal(c != nullptr ? new_object(made.column()) : new_object(adapter::adopt(made.tensor(), ferry::already_ready)));
        if (!x.is_valid()) throw nb::python_error{};
    }
    return {std::move(x), std::move(made)};
}

/// Decodes a descriptor. Keeps small ones: a consumer of frames attaches the same memories again and again.
std::shared_ptr<ferry::wire::descriptor const> descriptor_from(nb::handle source) {
    Py_buffer view;
    if (PyObject_GetBuffer(source.ptr(), &view, PyBUF_SIMPLE) != 0) {
        PyErr_Clear();
        throw nb::type_error("expected a descriptor: bytes (Shared.descriptor)");
    }
    struct releasing {
        Py_buffer* view;
        ~releasing() { PyBuffer_Release(view); }
    } const at_end{&view};
    std::string_view const bytes{static_cast<char const*>(view.buf), static_cast<std::size_t>(view.len)};
    static std::mutex lock;
    static auto& kept = *new std::map<std::string, std::shared_ptr<ferry::wire::descriptor const>, std::less<>>;
    std::lock_guard const locked{lock};
    if (auto const found = kept.find(bytes); found != kept.end()) return found->second;
    auto made = std::make_shared<ferry::wire::descriptor const>(ferry::wire::from_bytes(std::as_bytes(std::span{bytes})));
    if (kept.size() == 64) kept.clear();
    if (bytes.size() <= 4096) kept.emplace(bytes, made);
    return made;
}

/// Returns the device on which to open the memory; empty: the device of the exporter.
std::optional<ferry::device> place(ferry::wire::descriptor const& d, nb::handle wanted) {
    if (wanted.is_none()) return {};
    auto const asked = to_device(wanted);
    if (int const count = device_count(); asked.type == device::cuda && count > 0 && asked.id >= count) {
        throw std::invalid_argument{mt::name(asked) + " does not exist: the number of CUDA devices is " + std::to_string(count)};
    }
    auto const where = normalised(asked);
    auto const type = d.memories.empty() ? ferry::device_type::cpu : d.memories[0].type;
    if (where.type != static_cast<int>(type)) {
        throw std::invalid_argument{"shared memory of " + std::string{ferry::name(type)} + " cannot be opened on " +
                                    mt::name(where) + ": attach it without a device, then copy it"};
    }
    return ferry::device{type, where.id};
}

nb::object ipc_attach(nb::handle source, nb::handle device, std::vector<int> const& files) {
    auto const kept = descriptor_from(source);
    auto const& d = *kept;
    bool const is_frozen = !d.memories.empty() && d.memories[0].name.starts_with("/ferry-memfd-");  // an anonymous segment
    ferry::ipc::attach_options options{.session = &session(is_frozen), .device = place(d, device), .files = files};
    bool const is_column = std::holds_alternative<ferry::wire::node>(d.root);
    auto const* const list = std::get_if<ferry::wire::list>(&d.root);
#ifdef MINITENSOR_HAS_CUDA
    // The data of a Column must be ready on every stream, so no stream is passed, and the host waits.
    auto const is_tensor = [](auto const& one) { return std::holds_alternative<ferry::wire::tensor>(one); };
    if (list != nullptr) {
        bool const has_device = std::ranges::any_of(d.memories, [](auto& m) { return m.type == ferry::device_type::cuda; });
        if (has_device && std::ranges::all_of(*list, is_tensor)) options.stream = ferry::stream_token::cuda_legacy_default();
    } else if (!is_column && !d.memories.empty() && d.memories[0].kind != ferry::wire::memory_kind::none && d.memories[0].type == ferry::device_type::cuda) {
        ferry::device const on = options.device ? *options.device : ferry::device{ferry::device_type::cuda, ferry::cuda::device_with(d.memories[0].device)};
        options.stream = adapter::current_stream(on);
    }
#endif
    auto const unlocked = [](auto&& attach) {
        ferry::python::without_gil const others_run;
        return attach();
    };
    if (list != nullptr) return list_of(unlocked([&] { return ferry::ipc::attach_list(d, options, back_end()); }), options.stream);
    auto const made = is_column
                          ? new_object(unlocked([&] { return ferry::ipc::attach_column(d, options, back_end()); }))
                          : new_object(unlocked([&] { return adapter::adopt(ferry::ipc::attach(d, options, back_end()), options.stream); }));
    if (made == nullptr) throw nb::python_error{};
    return nb::steal(made);
}

}  // namespace

bool is_sealed(tensor const& t) { return session(true).sealed(adapter::view(t)); }

bool is_sealed(ferry::column const& c) { return session(true).sealed(c); }

void define_ipc(nb::module_& m) {
    nb::class_<shared>(m, "Shared", nb::is_weak_referenceable(),
                       "A Tensor, a Column or a list of them that other processes can attach. Created by ipc_share; closed when it is deleted.")
        .def_prop_ro("descriptor", &shared::descriptor, "The descriptor for ipc_attach, as bytes.")
        .def("json", &shared::json, "The descriptor as JSON in a str, for readers without minitensor.")
        .def_prop_ro("tensor", &shared::tensor,
                     "The shared memory in this process: the memory of the argument, or its copy.")
        .def_prop_ro("copied", &shared::copied, "Whether the memory is a copy of the argument, made by ipc_share.")
        .def_prop_ro("files", &shared::files,
                     "The file descriptors for the `files` of ipc_attach: a list, empty unless the memory is frozen. They are closed with "
                     "the memory. Send them with socket.send_fds.")
        .def("close", &shared::close, "Refuse new attaches in every process; existing ones stay valid. No effect if it is closed.")
        .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
        .def("__exit__", [](shared& self, nb::args) { self.close(); });
    m.def("ipc_share", &ipc_share, "x"_a, "freeze"_a = false,
          "Share a Tensor, a Column or a list of them with other processes of this user, until the result is closed or deleted. Host memory that is not "
          "shared yet is copied once. With `freeze`, no process can write the shared memory, and importers need `files` as well.");
    m.def("ipc_attach", &ipc_attach, "source"_a, "device"_a.none() = nb::none(), "files"_a = std::vector<int>{},
          "Attach the Tensor, Column or list that another process shares, without a copy, by its descriptor. `files`: file "
          "descriptors received with it (Shared.files).\n\n"
          "ValueError for an invalid descriptor or an unknown device, OSError if the exporter has closed the share or has exited.");
    nb::module_::import_("atexit").attr("register")(nb::cpp_function([] { session(false).close_all(), session(true).close_all(); }));
}

}  // namespace mt::python
