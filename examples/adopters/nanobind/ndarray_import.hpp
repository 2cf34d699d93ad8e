// nanobind's arrays on ferry: imports, creation and reference counts. Included in nb_ndarray.cpp, whose functions it calls.
NAMESPACE_BEGIN(NB_NAMESPACE)
NAMESPACE_BEGIN(detail)

static ferry::contiguity order_of(char order) {
    return order == 'C' ? ferry::contiguity::row_major
         : order == 'F' ? ferry::contiguity::column_major
         : order == 'A' ? ferry::contiguity::either
                        : ferry::contiguity::any;
}

constexpr ferry::flags unversioned = ferry::flags::none;  // an unversioned capsule has no flags

static ferry::managed_tensor import_dlpack(PyObject *src, bool ro) noexcept {
    // Libraries export an unversioned capsule faster, but not for read-only arrays.
    static constexpr ferry::request requests[] = {{.max_version = ferry::version::legacy}, {}};
    try {
        if (!py::supports_dlpack(src))
            return {};
    } catch (py::error_is_set const &) {
        PyErr_Clear();
        return {};
    }
    for (int i = ro ? 0 : 1; i < 2; ++i) {
        auto got = py::try_from_python<ferry::managed_tensor>(src, requests[i], ferry::share_only, nullptr, unversioned);
        if (got)
            return *std::move(got);
    }
    return {};
}

/// Imports an object with a DLPack method or the buffer protocol, or through the function to_dlpack() of its library.
static ferry::managed_tensor import_tensor(nb_internals *p, PyObject *src, bool ro) noexcept {
    if (auto tensor = import_dlpack(src, ro))
        return tensor;
    try {
        if (obj_has_buffer(src, Py_TYPE(src)))
            return py::from_buffer(src);
        int const framework = detect_framework(p, Py_TYPE(src));
        if (framework == pytorch::value)  // requires a gradient; to_dlpack() ignores the conjugate and negative bits
            return import_dlpack(obj_call(p, str_getattr(p, handle(src), "detach")).ptr(), ro);
        if (char const *pkg = importers[framework].to_dlpack_pkg) {
            object capsule = obj_call(p, str_getattr(p, module_::import_(pkg), "to_dlpack"), handle(src));
            return py::from_capsule(capsule.ptr(), unversioned);
        }
    } catch (...) {
        PyErr_Clear();
    }
    return {};
}

static bool has_complex_elements(ferry::data_type t) {
    return t.code == ferry::type_code::complex || t.code == ferry::type_code::bcomplex;
}

static ndarray_handle *ndarray_import_impl(nb_internals *p, PyObject *src, const ndarray_config &cfg, bool convert,
                                           cleanup_list *cleanup) noexcept;

/// Imports a converted copy of an array, which the cleanup list keeps alive.
NB_NOINLINE static ndarray_handle *import_converted(nb_internals *p, PyObject *src, const ndarray_config &cfg,
                                                    ferry::data_type dtype, cleanup_list *cleanup) noexcept {
    ferry::inplace_text const name = ferry::inplace_text{} << dtype;  // "float32"
    object converted = convert_array(p, detect_framework(p, Py_TYPE(src)), src, name.c_str(), cfg.order ? cfg.order : 'K');
    if (!converted.is_valid())
        return nullptr;
    ndarray_handle *h = ndarray_import_impl(p, converted.ptr(), cfg, false, nullptr);
    if (h && cleanup)
        cleanup->append(converted.release().ptr());
    return h;
}

static ndarray_handle *ndarray_import_impl(nb_internals *p, PyObject *src, const ndarray_config &cfg, bool convert,
                                           cleanup_list *cleanup) noexcept {
    // Device, access and shape are not converted.
    ferry::constraints const fixed{
        .rank = cfg.ndim,
        .shape = cfg.ndim > 0 ? ferry::shape_view{cfg.shape, cfg.ndim} : ferry::shape_view{},
        .device = static_cast<ferry::device_type>(cfg.device_type),
        .is_writable = !cfg.ro,
    };
    bool const has_dtype = cfg.dtype != dlpack::dtype(), is_capsule = PyCapsule_CheckExact(src);
    auto const dtype_for = [&](ferry::tensor_view const &v) { return has_dtype ? std::bit_cast<ferry::data_type>(cfg.dtype) : v.dtype(); };
    auto const fits = [&](ferry::tensor_view const &v) { return v.dtype() == dtype_for(v) && v.is_contiguous(order_of(cfg.order)); };
    // Another overload may accept a capsule: it is consumed only if this one does.
    if (is_capsule && !py::view_in_capsule(src, unversioned, [&](ferry::tensor_view const &v) { return fixed.matches(v) && fits(v); }))
        return nullptr;

    ferry::managed_tensor tensor = import_tensor(p, src, cfg.ro);
    if (!tensor)
        return nullptr;
    ferry::tensor_view const v = tensor.view();
    if (!fixed.matches(v))
        return nullptr;
    if (!fits(v)) {
        auto const dtype = dtype_for(v);
        if (!convert || is_capsule || v.dtype().lanes != 1 || (has_complex_elements(v.dtype()) && !has_complex_elements(dtype)))
            return nullptr;
        return import_converted(p, src, cfg, dtype, cleanup);
    }

    bool const lacks_strides = !tensor.get()->dl_tensor.strides && v.rank() > 0;
    scoped_pymalloc<ndarray_handle> memory(1, lacks_strides ? size_t(v.rank()) * sizeof(int64_t) : 0);
    PyObject *self = is_capsule ? nullptr : Py_NewRef(src);
    auto const &seen = reinterpret_cast<dlpack::dltensor const &>(tensor.get()->dl_tensor);
    auto *th = new (memory.release()) ndarray_handle(seen, cfg.ro, nullptr, self, tensor.release());
    if (lacks_strides) {
        th->seen.strides = ndarray_handle::lists(th);
        for (int i = 0; i < v.rank(); ++i)
            th->seen.strides[i] = v.stride(i);
    }
    return th;
}

dlpack::dltensor *ndarray_inc_ref(ndarray_handle *th) noexcept {
    if (!th)
        return nullptr;
    ++th->refcount;
    return &th->seen;
}

void ndarray_dec_ref(ndarray_handle *th) noexcept {
    if (!th)
        return;
    size_t const count = th->refcount--;
    check(count != 0, "ndarray_dec_ref(): reference count became negative!");
    if (count != 1)
        return;
    if (cleanup_guard guard{}) {  // the interpreter still runs
        Py_XDECREF(th->owner);
        Py_XDECREF(th->self);
        th->~ndarray_handle();
        PyMem_Free(th);
    }
}

ndarray_handle *ndarray_create(nb_internals *, const ndarray_create_args *a) {
    auto const rank = a->ndim;
    check(rank <= 128, "ndarray_create(): ndim is too large!");
    check(a->strides || a->order == '\0' || strchr("ACF", a->order), "ndarray_create(): unknown memory order requested!");
    scoped_pymalloc<ndarray_handle> memory(1, 2 * rank * sizeof(int64_t));
    int64_t *const shape = ndarray_handle::lists(memory.get()), *const strides = shape + rank;
    int64_t step = 1;
    for (size_t k = 0; k < rank; ++k) {
        size_t const i = a->order == 'F' ? k : rank - 1 - k;
        shape[i] = (int64_t) a->shape[i];
        strides[i] = a->strides ? a->strides[i] : std::exchange(step, step * shape[i]);
    }
    dlpack::dltensor const seen{a->data, {a->device_type ? a->device_type : device::cpu::value, a->device_id}, (int32_t) rank, a->dtype,
                                shape, strides, a->byte_offset};
    return new (memory.release()) ndarray_handle(seen, a->ro, Py_XNewRef(a->owner), nullptr);
}

NAMESPACE_END(detail)
NAMESPACE_END(NB_NAMESPACE)
