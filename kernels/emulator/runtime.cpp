// Runs kernels on a CPU: fibers for threads, the order in which they run, and the errors that a GPU would not tell.
//
// Compiled without the thread sanitizer that instruments the kernels: their reads and writes end here, in touch().
#include "emulator/cuda.h"

#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
constexpr bool SEES_PLAIN_WRITES = false;  // only atomic operations come to touch(): the others are the sanitizer's
#else
constexpr bool SEES_PLAIN_WRITES = true;
inline void __asan_poison_memory_region(const void*, size_t) {}
inline void __asan_unpoison_memory_region(const void*, size_t) {}
inline void __sanitizer_start_switch_fiber(void**, const void*, size_t) {}
inline void __sanitizer_finish_switch_fiber(void*, const void**, size_t*) {}
#endif

// What src/gpumf/backends/emulator.py passes, field by field.

struct Array {
    const char* name;
    char* begin;
    size_t bytes;
};

struct OutOfBounds {  // as the compiler's undefined behaviour sanitizer describes it
    const char* file;
    uint32_t line, column;
    struct Type {
        uint16_t kind, info;
        char name[1];
    } *array, *index;
};

enum Access : uint32_t { READ, WRITE, ATOMIC };

struct Step {  // a thread touches an array
    uint32_t thread, array, offset;
    Access access;
    uint32_t barriers;  // that the thread's block has passed
};

struct Launch {
    void (*run_thread)(void** arguments);
    char* (*dynamic_shared)();
    void** arguments;
    const Array* arrays;
    size_t n_arrays;
    dim3 grid, block;
    size_t shared;  // bytes of dynamic shared memory
    unsigned cores;
    unsigned shuffled;  // 0: threads and blocks in order, switched where they wait. 1: see Core::touch
    uint64_t seed;
    Step* steps;  // noted here as they happen, as far as there is room
    size_t max_steps, n_steps;
    size_t error_at;  // the instruction, counted from the start of the kernel's library; 0 if that is not known
    char error[512];
};

namespace {

constexpr unsigned WARP = 32;
constexpr size_t STACK_BYTES = 256 << 10;
constexpr unsigned SWITCH_EVERY = 4;  // reads and writes, on average, where the order is shuffled

struct Wait {
    const char* what = nullptr;  // none: the thread runs, or could
    unsigned mask = 0;
    Here place = {};
    const void* object = nullptr;  // see wake()
    bool same(const Wait& other) const {
        return what == other.what && mask == other.mask && place.line == other.place.line;
    }
};

struct Fiber {
    jmp_buf place;
    char* stack;
    size_t stack_bytes = STACK_BYTES;
    void* sanitizer = nullptr;
    bool started = false;

    unsigned number;  // of its thread in the block
    uint3 thread;
    bool ended = false;
    Wait wait;
    uint64_t given = 0, received = 0;  // in an exchange
    unsigned source = 0;
};

struct Region {  // memory that threads may touch
    const char* name;
    uintptr_t begin;
    size_t bytes;
    std::vector<uint8_t> written = {};  // of shared memory: for every byte whether this block has written it
    bool shared() const { return !written.empty(); }
};

unsigned volume(dim3 box) { return box.x * box.y * box.z; }
uint3 place_in(dim3 box, unsigned k) { return {k % box.x, k / box.x % box.y, k / box.x / box.y}; }
const char* base_name(const char* path) { return strrchr(path, '/') ? strrchr(path, '/') + 1 : path; }

// Memory for the stacks of fibers, which one launch after another takes and gives back: its pages stay mapped.
class Stacks {
  public:
    char* begin;

    explicit Stacks(size_t n) : bytes(n * STACK_BYTES) {
        const std::lock_guard<std::mutex> lock(mutex);
        std::vector<char*>& those = unused[bytes];
        if (those.empty()) {
            begin = (char*)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                                -1, 0);
            return;
        }
        begin = those.back();
        those.pop_back();
        __asan_unpoison_memory_region(begin, bytes);  // fibers that were left have guarded their frames
    }
    ~Stacks() {
        const std::lock_guard<std::mutex> lock(mutex);
        unused[bytes].push_back(begin);
    }

  private:
    size_t bytes;
    static inline std::mutex mutex;
    static inline std::map<size_t, std::vector<char*>> unused;  // by their bytes
};

class Core;
__attribute__((tls_model("initial-exec"))) thread_local Core* core;
__attribute__((tls_model("initial-exec"))) thread_local Fiber* self;

// One core, which runs a block at a time.
class Core {
  public:
    Launch& launch;
    uint3 block;
    bool failed = false;

    explicit Core(Launch& l)
        : launch(l), fibers(volume(l.block)), ring(fibers.size()), draw(l.seed), stacks(fibers.size()) {
        for (unsigned k = 0; k < fibers.size(); ++k) {
            fibers[k].stack = stacks.begin + k * STACK_BYTES;
            fibers[k].number = k;
            fibers[k].thread = place_in(l.block, k);
        }
        for (size_t k = 0; k < l.n_arrays; ++k)
            regions.push_back({l.arrays[k].name, (uintptr_t)l.arrays[k].begin, l.arrays[k].bytes});
        add_library_regions();
        __asan_poison_memory_region(l.dynamic_shared() + l.shared, MAX_SHARED - l.shared);
        last = &regions.back();
        waiting_lanes.resize((fibers.size() + WARP - 1) / WARP);
        home.started = true;
        if (!SEES_PLAIN_WRITES) {  // the sanitizer asks for it
            pthread_attr_t attributes;
            pthread_getattr_np(pthread_self(), &attributes);
            pthread_attr_getstack(&attributes, (void**)&home.stack, &home.stack_bytes);
            pthread_attr_destroy(&attributes);
        }
        core = this;
    }
    ~Core() { __asan_unpoison_memory_region(launch.dynamic_shared(), MAX_SHARED); }

    void run(unsigned number) {
        block = place_in(launch.grid, number);
        first_thread = number * fibers.size();
        for (Region& region : regions)
            if (region.shared()) {
                memset((void*)region.begin, 0xff, region.bytes);
                std::fill(region.written.begin(), region.written.end(), 0);
            }
        waiting = 0;
        barriers = 0;
        std::fill(came, std::end(came), 0);
        for (Fiber& fiber : fibers) {
            fiber.ended = false;
            make_ready(fiber);
        }
        go(home, next());
        if (failed) return;
        for (Fiber& fiber : fibers)
            if (!fiber.ended) return name_the_missing(fiber);
    }

    void sync_block(Here place) {
        self->wait = {"__syncthreads", ~0u, place};
        const bool all = ++waiting == fibers.size() &&
                         std::all_of(fibers.begin(), fibers.end(), [](Fiber& f) { return f.wait.same(self->wait); });
        if (!all) return pause();
        waiting = 0;
        ++barriers;
        for (Fiber& fiber : fibers) release(fiber);
    }

    void sync_some(unsigned number, unsigned threads, Here place) {
        if (++came[number] < threads) return wait_for("a barrier of some threads", &came[number], place);
        came[number] = 0;
        wake(&came[number]);
    }

    void wait_for(const char* what, const void* object, Here place) {
        self->wait = {what, ~0u, place, object};
        pause();
    }

    void wake(const void* object) {
        for (Fiber& fiber : fibers)
            if (fiber.wait.object == object) release(fiber);
    }

    // Every lane in the mask gives a value and receives the one of lane `source`; of lane WARP, what all voted.
    uint64_t exchange(const char* what, unsigned mask, uint64_t value, unsigned source, Here place) {
        Fiber* const lanes = &fibers[self->number / WARP * WARP];
        const unsigned lane = self->number % WARP;
        if (!(mask >> lane & 1))
            fail(nullptr, "calls %s (%s:%d) with the mask 0x%08x, which leaves out its own lane %u", what,
                 base_name(place.file), place.line, mask, lane);
        if (source < WARP && !(mask >> source & 1))
            fail(nullptr, "reads lane %u in %s (%s:%d), which is not in the mask 0x%08x", source, what,
                 base_name(place.file), place.line, mask);
        self->given = value;
        self->source = source;
        self->wait = {what, mask, place};
        unsigned& here = waiting_lanes[self->number / WARP];
        here |= 1u << lane;
        if ((here & mask) != mask || !all_of(mask, [&](unsigned l) { return lanes[l].wait.same(self->wait); }))
            pause();
        else {
            here &= ~mask;
            uint64_t votes = 0;
            all_of(mask, [&](unsigned l) { return votes |= uint64_t(lanes[l].given != 0) << l, true; });
            all_of(mask, [&](unsigned l) {
                lanes[l].received = lanes[l].source < WARP ? lanes[lanes[l].source].given : votes;
                return release(lanes[l]), true;
            });
        }
        return self->received;
    }

    // Called before every read and write of the kernel. Where the order is shuffled, another thread may come first:
    // any such order can happen on a GPU, whose threads run independently of each other since Volta.
    inline void touch(uintptr_t address, size_t bytes, Access access, void* from) {
        if (address - (uintptr_t)self->stack < STACK_BYTES) return;
        if (launch.shuffled && draw() % SWITCH_EVERY == 0) {
            make_ready(*self);
            pause();
        }
        if (address - last->begin >= last->bytes)
            for (Region& region : regions)
                if (address - region.begin < region.bytes) last = &region;
        const size_t offset = address - last->begin;
        if (offset >= last->bytes || bytes > last->bytes - offset) out_of_bounds(address, bytes, access, from);
        if (SEES_PLAIN_WRITES && last->shared()) {
            uint8_t* const written = &last->written[offset];
            if (access == WRITE)
                memset(written, 1, bytes);
            else if (memchr(written, 0, bytes))
                fail(from, "reads %zu bytes of %s at %zu, which no thread of the block has written", bytes,
                     last->name, offset);
        }
        const size_t array = last - regions.data();
        if (launch.n_steps < launch.max_steps && array < launch.n_arrays)
            launch.steps[launch.n_steps++] = {first_thread + self->number, uint32_t(array), uint32_t(offset), access,
                                              barriers};
    }

    [[noreturn]] void beyond(const OutOfBounds& found, size_t index) {
        fail(nullptr, "uses index %zu of an array of type %s (%s:%u)", index, found.array->name,
             base_name(found.file), found.line);
    }

  private:
    std::vector<Fiber> fibers;
    std::vector<Fiber*> ring;  // those that could run, from `first` on
    std::mt19937 draw;
    std::vector<Region> regions;
    Region* last;  // the one touched before
    std::vector<unsigned> waiting_lanes;
    size_t first = 0, n_ready = 0, waiting = 0;
    unsigned came[16];  // to barriers of some threads, by number
    uint32_t first_thread;  // of the block, counted through the grid
    uint32_t barriers;      // that the block has passed
    size_t favoured = draw() % fibers.size(), favour_lasts = size_t(1) << draw() % 10;
    Fiber home;  // the core's own stack
    Stacks stacks;

    template <class Check>
    static bool all_of(unsigned mask, Check check) {
        for (; mask; mask &= mask - 1)
            if (!check(unsigned(__builtin_ctz(mask)))) return false;
        return true;
    }

    void make_ready(Fiber& fiber) { ring[(first + n_ready++) % ring.size()] = &fiber; }

    void release(Fiber& fiber) {
        fiber.wait = {};
        if (&fiber != self) make_ready(fiber);
    }

    Fiber& next() {
        if (n_ready == 0) return home;
        if (launch.shuffled) choose();
        Fiber& result = *ring[first];
        first = (first + 1) % ring.size();
        --n_ready;
        return result;
    }

    // Puts first, of those that could run, the favoured thread or the next one above it. A favour that is drawn anew
    // each time mixes all threads finely; one that lasts lets a warp get far ahead of the others.
    void choose() {
        if (draw() % favour_lasts == 0) favoured = draw() % fibers.size();
        size_t best = first;
        auto distance = [&](size_t k) { return (ring[k]->number + fibers.size() - favoured) % fibers.size(); };
        for (size_t k = 0; k < n_ready; ++k) {
            const size_t other = (first + k) % ring.size();
            if (distance(other) < distance(best)) best = other;
        }
        std::swap(ring[first], ring[best]);
    }

    void pause() { go(*self, next()); }

    // Returns when another fiber goes to `from`. swapcontext alone would do, but for two system calls each time.
    static void go(Fiber& from, Fiber& to) {
        if (&from == &to) return;
        if (!_setjmp(from.place)) leave(&from.sanitizer, to);
        __sanitizer_finish_switch_fiber(from.sanitizer, nullptr, nullptr);
    }

    // Its frame is left behind where a fiber begins, and so must have nothing that AddressSanitizer guards.
    [[noreturn]] __attribute__((no_sanitize("address"))) static void leave(void** sanitizer, Fiber& to) {
        self = &to;
        __sanitizer_start_switch_fiber(sanitizer, to.stack, to.stack_bytes);
        if (to.started) _longjmp(to.place, 1);
        to.started = true;
        ucontext_t context;
        getcontext(&context);
        context.uc_stack.ss_sp = to.stack;
        context.uc_stack.ss_size = STACK_BYTES;
        makecontext(&context, run_threads, 0);
        setcontext(&context);
        __builtin_unreachable();
    }

    static void run_threads() {  // the same thread of one block after another
        __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
        for (;;) {
            core->launch.run_thread(core->launch.arguments);
            self->ended = true;
            core->pause();
        }
    }

    // The kernel's library: its thread-local memory is the shared memory, the rest of it are constants.
    void add_library_regions() {
        const uintptr_t dynamic = (uintptr_t)launch.dynamic_shared();
        struct Search {
            uintptr_t base, thread_local_end, image_end;
            uintptr_t thread_local_begin;
        } found = {library(), 0, 0, 0};
        dl_iterate_phdr(
            [](dl_phdr_info* info, size_t, void* data) {
                Search& search = *static_cast<Search*>(data);
                if (info->dlpi_addr != search.base) return 0;
                for (int k = 0; k < info->dlpi_phnum; ++k) {
                    const auto& part = info->dlpi_phdr[k];
                    if (part.p_type == PT_LOAD) search.image_end = search.base + part.p_vaddr + part.p_memsz;
                    if (part.p_type == PT_TLS) {
                        search.thread_local_begin = (uintptr_t)info->dlpi_tls_data;
                        search.thread_local_end = search.thread_local_begin + part.p_memsz;
                    }
                }
                return 1;
            },
            &found);
        add_shared("dynamic shared memory", dynamic, dynamic + launch.shared);
        add_shared("static shared memory", found.thread_local_begin, dynamic);
        add_shared("static shared memory", dynamic + MAX_SHARED, found.thread_local_end);
        regions.push_back({"the library's constants", found.base, found.image_end - found.base});
    }

    void add_shared(const char* name, uintptr_t begin, uintptr_t end) {
        if (begin < end) regions.push_back({name, begin, end - begin, std::vector<uint8_t>(end - begin)});
    }

    uintptr_t library() const {
        Dl_info info;
        dladdr((void*)launch.run_thread, &info);
        return (uintptr_t)info.dli_fbase;
    }

    // Errors

    [[noreturn]] void out_of_bounds(uintptr_t address, size_t bytes, Access access, void* from) {
        auto distance = [&](const Region& r) {
            return address < r.begin ? r.begin - address : address - std::min(address, r.begin + r.bytes);
        };
        const Region& near = *std::min_element(regions.begin(), regions.end(), [&](const Region& a, const Region& b) {
            return distance(a) < distance(b);
        });
        fail(from, "%s %zu bytes out of bounds, at %td of the %zu bytes of %s", access == READ ? "reads" : "writes",
             bytes, ptrdiff_t(address - near.begin), near.bytes, near.name);
    }

    // `fiber` waits, and nobody is left who could come.
    void name_the_missing(Fiber& fiber) {
        if (fiber.wait.object) {
            self = &fiber;
            return note(nullptr, "waits for ever at %s (%s:%d)", fiber.wait.what, base_name(fiber.wait.place.file),
                        fiber.wait.place.line);
        }
        const bool warp = fiber.wait.mask != ~0u || strcmp(fiber.wait.what, "__syncthreads") != 0;
        const unsigned begin = warp ? fiber.number / WARP * WARP : 0;
        const unsigned end = warp ? begin + WARP : fibers.size();
        self = &fiber;
        for (unsigned k = begin; k < end; ++k) {
            if (warp && !(fiber.wait.mask >> k % WARP & 1)) continue;
            if (k < fibers.size() && fibers[k].wait.same(fiber.wait)) continue;
            char why[256];
            if (k >= fibers.size())
                snprintf(why, sizeof why, "lane %u does not exist", k % WARP);
            else if (const auto [x, y, z] = fibers[k].thread; fibers[k].ended)
                snprintf(why, sizeof why, "thread (%u, %u, %u) has ended", x, y, z);
            else
                snprintf(why, sizeof why, "thread (%u, %u, %u) waits at %s (%s:%d)", x, y, z, fibers[k].wait.what,
                         base_name(fibers[k].wait.place.file), fibers[k].wait.place.line);
            return note(nullptr, "waits for ever at %s (%s:%d): %s", fiber.wait.what,
                        base_name(fiber.wait.place.file), fiber.wait.place.line, why);
        }
    }

    template <class... Values>
    [[noreturn]] void fail(void* from, const char* format, Values... values) {
        note(from, format, values...);
        leave(nullptr, home);
    }

    template <class... Values>
    void note(void* from, const char* format, Values... values) {
        static std::mutex mutex;
        const std::lock_guard<std::mutex> lock(mutex);
        failed = true;
        if (launch.error[0]) return;
        const auto [x, y, z] = self->thread;
        const int n = snprintf(launch.error, sizeof launch.error, "thread (%u, %u, %u) of block (%u, %u, %u) ", x, y,
                               z, block.x, block.y, block.z);
        snprintf(launch.error + n, sizeof launch.error - n, format, values...);
        launch.error_at = from ? (uintptr_t)from - 1 - library() : 0;
    }
};

}  // namespace

uint3 thread_index() { return self->thread; }
uint3 block_index() { return core->block; }
dim3 block_size() { return core->launch.block; }
dim3 grid_size() { return core->launch.grid; }
unsigned lane_index() { return self->number % WARP; }

void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
void __syncthreads(Here place) { core->sync_block(place); }
void sync_some(unsigned number, unsigned threads, Here place) { core->sync_some(number, threads, place); }
void wait_for(const char* what, const void* object, Here place) { core->wait_for(what, object, place); }
void wake(const void* object) { core->wake(object); }
void __syncwarp(unsigned mask, Here place) { core->exchange("__syncwarp", mask, 0, lane_index(), place); }
unsigned __ballot_sync(unsigned mask, int predicate, Here place) {
    return core->exchange("a vote", mask, predicate, WARP, place);
}
uint64_t exchange(const char* what, unsigned mask, uint64_t value, unsigned source, Here place) {
    return core->exchange(what, mask, value, source, place);
}

// What the compiler calls before every read and write of a kernel that it builds with -fsanitize=thread,bounds, and
// where an index is beyond an array whose length it knows.

#define FROM __builtin_return_address(0)
void touch_atomically(const void* address, size_t bytes) { core->touch((uintptr_t)address, bytes, ATOMIC, FROM); }

extern "C" {
#define TOUCH(bytes)                                                                                      \
    void __tsan_read##bytes(void* a) { core->touch((uintptr_t)a, bytes, READ, FROM); }                   \
    void __tsan_write##bytes(void* a) { core->touch((uintptr_t)a, bytes, WRITE, FROM); }                   \
    void __tsan_unaligned_read##bytes(void* a) { core->touch((uintptr_t)a, bytes, READ, FROM); }         \
    void __tsan_unaligned_write##bytes(void* a) { core->touch((uintptr_t)a, bytes, WRITE, FROM); }
TOUCH(1)
TOUCH(2)
TOUCH(4)
TOUCH(8)
TOUCH(16)
void __tsan_read_range(void* a, size_t bytes) { core->touch((uintptr_t)a, bytes, READ, FROM); }
void __tsan_write_range(void* a, size_t bytes) { core->touch((uintptr_t)a, bytes, WRITE, FROM); }
void __ubsan_handle_out_of_bounds(OutOfBounds* found, size_t index) { core->beyond(*found, index); }
// Clang has these for whole objects.
void* __tsan_memset(void* to, int value, size_t bytes) {
    core->touch((uintptr_t)to, bytes, WRITE, FROM);
    return memset(to, value, bytes);
}
void* __tsan_memmove(void* to, const void* from, size_t bytes) {
    core->touch((uintptr_t)from, bytes, READ, FROM);
    core->touch((uintptr_t)to, bytes, WRITE, FROM);
    return memmove(to, from, bytes);
}
void* __tsan_memcpy(void* to, const void* from, size_t bytes) { return __tsan_memmove(to, from, bytes); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

void launch(Launch* launch) {
    std::vector<unsigned> order(volume(launch->grid));
    std::iota(order.begin(), order.end(), 0u);
    if (launch->shuffled) std::shuffle(order.begin(), order.end(), std::mt19937(launch->seed));
    std::atomic<size_t> next{0};
    std::atomic<bool> failed{false};
    auto work = [&] {
        Core mine(*launch);
        for (size_t k; !failed && (k = next++) < order.size();) {
            mine.run(order[k]);
            if (mine.failed) failed = true;
        }
    };
    std::vector<std::thread> cores;  // beside this one
    for (size_t k = 1; k < std::min<size_t>(launch->cores, order.size()); ++k) cores.emplace_back(work);
    work();
    for (std::thread& thread : cores) thread.join();
}
}
