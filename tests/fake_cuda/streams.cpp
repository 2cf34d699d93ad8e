// Streams are threads that run queued work late and in sequence; events, and captures into graphs.
#include <fake_cuda/state.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace fake {
namespace {

std::atomic<caught*> catcher = nullptr;
std::atomic<std::uint64_t> last_thread = 0;

/// Runs the work of one stream in sequence.
void run_all(std::shared_ptr<stream> s) {
    auto& g = all();
    std::unique_lock lock{g.mutex};
    for (;;) {
        s->more.wait(lock, [&] { return s->ends || !s->todo.empty(); });
        if (s->todo.empty()) break;
        work now = std::move(s->todo.front());
        s->todo.pop_front();
        g.progress.wait(lock, [&] {
            return (now.waits_for == nullptr || now.waits_for->is_reached) &&
                   std::all_of(now.after.begin(), now.after.end(),
                               [](auto const& other) { return other.first->done >= other.second; });
        });
        lock.unlock();
        std::this_thread::sleep_for(std::chrono::microseconds{10});  // what does not wait comes too early
        if (now.run) now.run();
        now = {};  // releases its captures before its end is visible
        lock.lock();
        ++s->done;
        g.progress.notify_all();
    }
    g.running.erase(s);
    g.progress.notify_all();
}

std::shared_ptr<stream> make_stream(int device, bool is_blocking) {
    auto s = std::make_shared<stream>();
    s->device = device;
    s->is_blocking = is_blocking;
    s->id = ++all().last_id;
    return s;
}

void end_stream(stream& s) {
    s.ends = true;
    s.more.notify_all();
}

/// Whether the legacy stream of a device would join a capture.
bool joins_capture(stream const& s) {
    if (!s.is_legacy) return false;
    auto const captured = [&](stream const& other) {
        return other.is_blocking && other.device == s.device && other.in != nullptr;
    };
    return std::any_of(all().streams.begin(), all().streams.end(),
                       [&](auto const& other) { return captured(*other.second); });
}

/// Queries of a captured stream, and waits for it, invalidate its capture.
cudaError_t refuse_in_capture(stream const& s) {
    if (joins_capture(s)) return cudaErrorStreamCaptureImplicit;
    if (s.in == nullptr) return cudaSuccess;
    s.in->is_valid = false;
    return cudaErrorStreamCaptureUnsupported;
}

cudaError_t make_event(cudaEvent_t* out, unsigned flags) {
    std::lock_guard const lock{all().mutex};
    auto made = std::make_shared<event>();
    made->device = mine().device;
    if ((flags & cudaEventInterprocess) != 0 && (made->shared = make_shared_event()) == nullptr)
        return cudaErrorMemoryAllocation;
    *out = reinterpret_cast<cudaEvent_t>(made.get());
    all().events.emplace(*out, std::move(made));
    return cudaSuccess;
}

cudaError_t record(cudaEvent_t which, cudaStream_t on) {
    std::lock_guard const lock{all().mutex};
    auto const e = find_event(which);
    auto const s = find(on);
    if (e == nullptr || s == nullptr || e->device != s->device) return cudaErrorInvalidResourceHandle;
    auto now = std::make_shared<moment>();
    now->in = s->in;
    auto const shared = e->shared;
    auto const turn = shared != nullptr ? shared->recorded + 1 : 0;
    auto const queued = push(s, [now, shared, turn] {
        std::lock_guard const inner{all().mutex};
        now->is_reached = true;
        if (shared != nullptr) shared->reached = turn;
    });
    if (queued != cudaSuccess) return queued;
    e->latest = now;
    if (shared != nullptr && now->in == nullptr) shared->recorded = turn;
    return cudaSuccess;
}

cudaError_t wait_event(cudaStream_t on, cudaEvent_t which) {
    std::lock_guard const lock{all().mutex};
    auto const e = find_event(which);
    auto const s = find(on);
    if (e == nullptr || s == nullptr) return cudaErrorInvalidResourceHandle;
    if (e->whose != 0) {
        if (e->shared->reached >= e->shared->recorded) return cudaSuccess;
        if (s->in != nullptr) s->in->is_valid = false;
        if (s->in != nullptr) return cudaErrorStreamCaptureIsolation;
        return push(s, [shared = e->shared, turn = e->shared->recorded.load(), whose = e->whose] {
            wait_for(*shared, turn, whose);
        });
    }
    if (e->latest == nullptr) return cudaSuccess;
    if (auto const& in = e->latest->in; in != nullptr) {
        if (s->in != nullptr && s->in != in) return cudaErrorStreamCaptureMerge;
        if (all().captures.count(in) == 0) return cudaErrorCapturedEvent;
        s->in = in;
        return cudaSuccess;
    }
    if (s->in != nullptr) {
        s->in->is_valid = false;
        return cudaErrorStreamCaptureIsolation;
    }
    return push(s, {}, e->latest);
}

cudaError_t is_capturing(cudaStream_t which, cudaStreamCaptureStatus* status) {
    std::lock_guard const lock{all().mutex};
    auto const s = find(which);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    if (joins_capture(*s)) return cudaErrorStreamCaptureImplicit;
    *status = s->in == nullptr  ? cudaStreamCaptureStatusNone
              : s->in->is_valid ? cudaStreamCaptureStatusActive
                                : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
}

}  // namespace

void fault(std::string const& sentence) {
    if (auto* const here = catcher.load()) {
        std::lock_guard const lock{here->mutex_};
        here->sentences_.push_back(sentence);
        return;
    }
    std::fprintf(stderr, "the fake of CUDA: %s\n", sentence.c_str());
    std::abort();
}

caught::caught() { catcher = this; }
caught::~caught() { catcher = nullptr; }
std::vector<std::string> caught::sentences() const {
    std::lock_guard const lock{mutex_};
    return sentences_;
}

everything::everything() {
    for (int id = 0; id < devices; ++id) {
        default_pool[id] = std::make_shared<pool>();
        default_pool[id]->device = id;
        default_pool[id]->open_to = 1u << id;
        current_pool[id] = default_pool[id];
        pools.emplace(reinterpret_cast<cudaMemPool_t>(default_pool[id].get()), default_pool[id]);
        legacy[id] = std::make_shared<stream>();
        legacy[id]->device = id;
        legacy[id]->is_legacy = true;
        legacy[id]->id = ++last_id;
    }
}

everything& all() {
    static auto* const one = new everything;
    return *one;
}

of_thread::of_thread() : id{++last_thread} {}
of_thread::~of_thread() {
    std::lock_guard const lock{all().mutex};
    for (auto const& s : own) {
        if (s == nullptr) continue;
        end_stream(*s);
        all().streams.erase(reinterpret_cast<cudaStream_t>(s.get()));
    }
}
of_thread& mine() {
    thread_local of_thread one;
    return one;
}

cudaError_t say(cudaError_t e) {
    mine().has_context = true;
    if (e != cudaSuccess) mine().last = e;
    return e;
}

std::shared_ptr<event> find_event(cudaEvent_t e) {
    auto const at = all().events.find(e);
    if (at == all().events.end()) {
        fault("an event is used that is unknown, or destroyed");
        return nullptr;
    }
    return at->second;
}

std::shared_ptr<stream> find(cudaStream_t s) {
    if (s == nullptr) {
        fault("a null stream is used");
        return nullptr;
    }
    int const id = mine().device;
    if (s == cudaStreamLegacy) return all().legacy[id];
    if (s == cudaStreamPerThread) {
        auto& own = mine().own[id];
        if (own == nullptr) {
            own = make_stream(id, true);
            all().streams.emplace(reinterpret_cast<cudaStream_t>(own.get()), own);
        }
        return own;
    }
    auto const at = all().streams.find(s);
    if (at == all().streams.end()) {
        fault("a stream is used that is unknown, or destroyed");
        return nullptr;
    }
    return at->second;
}

cudaError_t push(std::shared_ptr<stream> const& s, std::function<void()> run, std::shared_ptr<moment> waits_for) {
    auto& g = all();
    if (joins_capture(*s)) {
        for (auto const& [handle, other] : g.streams)
            if (other->is_blocking && other->in != nullptr) other->in->is_valid = false;
        return cudaErrorStreamCaptureImplicit;
    }
    if (s->in != nullptr) {
        if (!s->in->is_valid) return cudaErrorStreamCaptureInvalidated;
        s->in->nodes.push_back(std::move(run));
        s->in->names.push_back(reinterpret_cast<cudaGraphNode_t>(&s->in->nodes));
        s->in->edges.push_back({});
        return cudaSuccess;
    }
    work next{std::move(run), {}, std::move(waits_for)};
    auto const wait_for = [&](std::shared_ptr<stream> const& other) {
        if (other->done < other->queued) next.after.emplace_back(other, other->queued);
    };
    if (s->is_blocking) wait_for(g.legacy[s->device]);
    if (s->is_legacy)
        for (auto const& [handle, other] : g.streams)
            if (other->is_blocking && other->device == s->device) wait_for(other);
    s->todo.push_back(std::move(next));
    ++s->queued;
    if (!s->has_thread) {
        s->has_thread = true;
        g.running.insert(s);
        std::thread{run_all, s}.detach();
    }
    s->more.notify_all();
    return cudaSuccess;
}

cudaError_t refuse_beside_captures() {
    if (mine().mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
    for (auto const& c : all().captures) {
        bool const minds = c->mode == cudaStreamCaptureModeGlobal ||
                           (c->mode == cudaStreamCaptureModeThreadLocal && c->thread == mine().id);
        if (!minds) continue;
        if (mine().mode == cudaStreamCaptureModeThreadLocal && c->thread != mine().id) continue;
        c->is_valid = false;
        return cudaErrorStreamCaptureUnsupported;
    }
    return cudaSuccess;
}

void finish(std::unique_lock<std::mutex>& lock, stream const& s) {
    auto const until = s.queued;
    all().progress.wait(lock, [&] { return s.done >= until; });
}

void finish_device(std::unique_lock<std::mutex>& lock, int id) {
    auto const running = all().running;  // destroyed ones, too
    for (auto const& s : running)
        if (s->device == id) finish(lock, *s);
}

cudaError_t queue(cudaStream_t on, std::function<void()> run) {
    std::lock_guard const lock{all().mutex};
    auto const s = find(on);
    return s == nullptr ? cudaErrorInvalidResourceHandle : push(s, std::move(run));
}

void settle(cudaStream_t on) {
    std::unique_lock lock{all().mutex};
    bool const is_default = on == cudaStreamLegacy || on == cudaStreamPerThread;
    if (!is_default && all().streams.count(on) == 0) return;
    auto const s = find(on);
    finish(lock, *s);
}

things left() {
    auto& g = all();
    std::lock_guard const lock{g.mutex};
    return {g.blocks.size(), g.streams.size(), g.events.size(), g.pools.size() - devices};
}

void begin() {
    for (int id = devices; id-- > 0;) {
        mine().device = id;
        static_cast<void>(queue(cudaStreamLegacy, [] {}));
        static_cast<void>(queue(cudaStreamPerThread, [] {}));
    }
}

void end() {
    auto& g = all();
    std::unique_lock lock{g.mutex};
    for (auto const& [handle, s] : g.streams) end_stream(*s);
    for (auto const& s : g.legacy) end_stream(*s);
    g.progress.wait(lock, [&] { return g.running.empty(); });
}

}  // namespace fake

using namespace fake;

extern "C" {

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
    std::lock_guard const lock{all().mutex};
    if (auto const e = refuse_beside_captures(); e != cudaSuccess) return say(e);
    auto const s = make_stream(mine().device, flags != cudaStreamNonBlocking);
    *out = reinterpret_cast<cudaStream_t>(s.get());
    all().streams.emplace(*out, s);
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t* out) { return cudaStreamCreateWithFlags(out, cudaStreamDefault); }
/// Queued work still runs.
cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t which) {
    std::lock_guard const lock{all().mutex};
    auto const s = find(which);
    if (s == nullptr) return say(cudaErrorInvalidResourceHandle);
    end_stream(*s);
    all().streams.erase(which);
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t which) {
    std::unique_lock lock{all().mutex};
    auto const s = find(which);
    if (s == nullptr) return say(cudaErrorInvalidResourceHandle);
    if (auto const e = refuse_in_capture(*s); e != cudaSuccess) return say(e);
    if (auto const e = refuse_beside_captures(); e != cudaSuccess) return say(e);
    if (s->is_legacy) {  // it waits for the others
        auto const queued = push(s, {});
        if (queued != cudaSuccess) return say(queued);
    }
    finish(lock, *s);
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t which) {
    std::lock_guard const lock{all().mutex};
    auto const s = find(which);
    if (s == nullptr) return say(cudaErrorInvalidResourceHandle);
    if (auto const e = refuse_in_capture(*s); e != cudaSuccess) return say(e);
    if (auto const e = refuse_beside_captures(); e != cudaSuccess) return say(e);
    return s->done == s->queued ? cudaSuccess : say(cudaErrorNotReady);
}
cudaError_t CUDARTAPI cudaStreamGetDevice(cudaStream_t which, int* id) {
    std::lock_guard const lock{all().mutex};
    auto const s = find(which);
    if (s == nullptr) return say(cudaErrorInvalidResourceHandle);
    if (auto const e = refuse_in_capture(*s); e != cudaSuccess) return say(e);
    *id = s->device;
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaStreamGetId(cudaStream_t which, unsigned long long* id) {
    std::lock_guard const lock{all().mutex};
    auto const s = find(which);
    if (s == nullptr) return say(cudaErrorInvalidResourceHandle);
    *id = s->id;
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaDeviceSynchronize() {
    auto& g = all();
    std::unique_lock lock{g.mutex};
    if (auto const e = refuse_beside_captures(); e != cudaSuccess) return say(e);
    finish_device(lock, mine().device);
    return say(cudaSuccess);
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags) { return say(make_event(e, flags)); }
cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t* e) { return say(make_event(e, cudaEventDefault)); }
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t e) {
    std::lock_guard const lock{all().mutex};
    if (find_event(e) == nullptr) return say(cudaErrorInvalidResourceHandle);
    all().events.erase(e);
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t e, cudaStream_t s) { return say(record(e, s)); }
cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) { return say(wait_event(s, e)); }
cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t which) {
    std::unique_lock lock{all().mutex};
    auto const e = find_event(which);
    if (e == nullptr) return say(cudaErrorInvalidResourceHandle);
    if (auto const code = refuse_beside_captures(); code != cudaSuccess) return say(code);
    if (e->whose != 0) {
        lock.unlock();
        wait_for(*e->shared, e->shared->recorded, e->whose);
        return say(cudaSuccess);
    }
    auto const now = e->latest;
    if (now != nullptr && now->in != nullptr) return say(cudaErrorCapturedEvent);
    all().progress.wait(lock, [&] { return now == nullptr || now->is_reached; });
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t which) {
    std::lock_guard const lock{all().mutex};
    auto const e = find_event(which);
    if (e == nullptr) return say(cudaErrorInvalidResourceHandle);
    if (auto const code = refuse_beside_captures(); code != cudaSuccess) return say(code);
    if (e->whose != 0) return e->shared->reached >= e->shared->recorded ? cudaSuccess : say(cudaErrorNotReady);
    if (e->latest != nullptr && e->latest->in != nullptr) return say(cudaErrorCapturedEvent);
    return e->latest == nullptr || e->latest->is_reached ? cudaSuccess : say(cudaErrorNotReady);
}

cudaError_t CUDARTAPI cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
    std::swap(mine().mode, *mode);
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* status) {
    return say(is_capturing(s, status));
}
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(cudaStream_t which, cudaStreamCaptureStatus* status,
                                               unsigned long long* id, cudaGraph_t* graph,
                                               cudaGraphNode_t const** nodes, cudaGraphEdgeData const** edges,
                                               std::size_t* n) {
    if (auto const e = is_capturing(which, status); e != cudaSuccess) return say(e);
    std::lock_guard const lock{all().mutex};
    auto const s = find(which);
    if (s == nullptr || s->in == nullptr) return say(cudaSuccess);
    if (id != nullptr) *id = s->in->id;
    if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(s->in.get());
    if (nodes != nullptr) *nodes = s->in->names.data();
    if (edges != nullptr) *edges = s->in->edges.data();
    if (n != nullptr) *n = s->in->names.size();
    return say(cudaSuccess);
}
/// Graphs run their work in the sequence of capture, so no dependencies are stored.
cudaError_t CUDARTAPI cudaStreamUpdateCaptureDependencies(cudaStream_t which, cudaGraphNode_t*,
                                                          cudaGraphEdgeData const*, std::size_t, unsigned) {
    std::lock_guard const lock{all().mutex};
    auto const s = find(which);
    return say(s != nullptr && s->in != nullptr ? cudaSuccess : cudaErrorIllegalState);
}
cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t which, cudaStreamCaptureMode mode) {
    std::lock_guard const lock{all().mutex};
    auto const s = find(which);
    if (s == nullptr || s->is_legacy || s->in != nullptr) return say(cudaErrorStreamCaptureUnsupported);
    s->in = std::make_shared<capture>();
    s->in->id = ++all().last_id;
    s->in->mode = mode;
    s->in->thread = mine().id;
    all().captures.insert(s->in);
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t which, cudaGraph_t* graph) {
    std::lock_guard const lock{all().mutex};
    auto const s = find(which);
    if (s == nullptr || s->in == nullptr) return say(cudaErrorIllegalState);
    auto const ended = s->in;
    for (auto const& [handle, other] : all().streams)
        if (other->in == ended) other->in.reset();
    all().captures.erase(ended);
    *graph = nullptr;
    if (!ended->is_valid) return say(cudaErrorStreamCaptureInvalidated);
    *graph = reinterpret_cast<cudaGraph_t>(new std::shared_ptr<capture>{ended});
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t graph) {
    delete reinterpret_cast<std::shared_ptr<capture>*>(graph);
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
    *exec = reinterpret_cast<cudaGraphExec_t>(
        new std::shared_ptr<capture>{*reinterpret_cast<std::shared_ptr<capture>*>(graph)});
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t exec) {
    delete reinterpret_cast<std::shared_ptr<capture>*>(exec);
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t which) {
    std::lock_guard const lock{all().mutex};
    auto const s = find(which);
    if (s == nullptr) return say(cudaErrorInvalidResourceHandle);
    for (auto const& node : (*reinterpret_cast<std::shared_ptr<capture>*>(exec))->nodes)
        if (auto const e = push(s, node); e != cudaSuccess) return say(e);
    return say(cudaSuccess);
}

}  // extern "C"
