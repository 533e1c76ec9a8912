"""Who allocates in C and C++: native frames above the line of Python, and `new` and `delete`."""

import json
import shutil
import subprocess

import pytest
from memory_alone import by_function
from test_native_heap import JEMALLOC, build, of_domain, profiled

pytestmark = pytest.mark.beside_others  # bytes and names, no times


def test_callers_in_c(tmp_path):
    """The function that allocates, those that called it, in other libraries too, up to the line of
    Python; in functions of every shape."""
    source = tmp_path / "callers.c"
    source.write_text(
        """
        #include <alloca.h>
        #include <stdlib.h>
        #include <string.h>
        volatile int zero;
        void *inner(size_t size) { char *made = malloc(size); return made + zero; }
        void *middle(size_t size)               /* a frame pointer: room of unknown size */
        {
            volatile char *room = alloca(size % 1000 + zero);
            room[0] = 1;
            void *made = inner(size);
            return room[0] ? made : NULL;
        }
        void *outer(size_t size)                /* the stack is aligned anew */
        {
            volatile struct { char bytes[64]; } __attribute__((aligned(64))) room = {{1}};
            void *made = middle(size);
            return room.bytes[zero] ? made : NULL;
        }
        static void *made;
        static int order(const void *one, const void *other)
        {
            made = made ? made : outer(*(const size_t *)one);
            return 0;
        }
        void *sorted(size_t size)               /* through the C library */
        {
            size_t pair[] = {size, size};
            made = NULL;
            qsort(pair, 2, sizeof pair[0], order);
            return made;
        }
        """
    )
    library = build(source, tmp_path / "libcallers.so")
    done = profiled(
        tmp_path,
        """
        library = ctypes.PyDLL(sys.argv[1])
        library.sorted.restype = ctypes.c_void_p
        profiler.start()
        def sorts(): return library.sorted(ctypes.c_size_t(50_000_000))
        kept = sorts()
        profiler.stop()
        """,
        library,
    )
    (sample,) = [s for s in of_domain(done.samples(), "native") if s.values["heap-space"] > 40e6]
    names = [name for name, _, _ in sample.stack]
    own = [f"{name} [libcallers.so]" for name in ("inner", "middle", "outer")]
    assert names[:4] == [*own, "[libcallers.so]"]
    assert names[4].endswith("[libc.so.6]")
    assert "sorted [libcallers.so]" in names[5:7]
    assert any("_ctypes" in name for name in names)
    assert "[C code]" not in names
    lines = [name for name, file, _ in sample.stack if file != "<native>"]
    assert lines == ["sorts", "<module>"]
    assert [file for _, file, _ in sample.stack] == ["<native>"] * (len(names) - 2) + [
        file for _, file, _ in sample.stack[-2:]
    ]


@pytest.mark.skipif(not shutil.which("g++"), reason="there is no C++ compiler")
@pytest.mark.parametrize("preload", ["", JEMALLOC])
def test_new_and_delete(tmp_path, preload):
    """C++'s, also where the allocator in front brings its own; one that throws changes nothing."""
    source = tmp_path / "made.cpp"
    source.write_text(
        """
        #include <cstddef>
        #include <new>
        struct alignas(128) wide { char bytes[1024]; };
        static char *volatile sink;
        extern "C" char **keep_new(long count, size_t size)
        {
            char **all = new char *[count];
            for (long i = 0; i < count; i++) all[i] = new char[size];
            return all;
        }
        extern "C" void drop_new(char **all, long count)
        {
            for (long i = 0; i < count; i++) delete[] all[i];
            delete[] all;
        }
        extern "C" wide **keep_wide(long count)
        {
            wide **all = new wide *[count];
            for (long i = 0; i < count; i++) all[i] = i % 2 ? new wide : new (std::nothrow) wide;
            return all;
        }
        extern "C" void drop_wide(wide **all, long count)
        {
            for (long i = 0; i < count; i++) delete all[i];
            delete[] all;
        }
        extern "C" int fail(void)
        {
            try { sink = new char[(size_t)1 << 62]; } catch (const std::bad_alloc &) { return 1; }
            return 0;
        }
        """
    )
    library = tmp_path / "libmade.so"
    command = ["g++", "-std=c++17", "-O1", "-Wall", "-shared", "-fPIC", "-o", library, source]
    subprocess.run(command, check=True)
    done = profiled(
        tmp_path,
        """
        library = ctypes.PyDLL(sys.argv[1])
        library.keep_new.restype = library.keep_wide.restype = ctypes.c_void_p
        pointer, number = ctypes.c_void_p, ctypes.c_long
        profiler.start()
        assert library.fail() == 1
        def narrow(): return library.keep_new(number(100_000), ctypes.c_size_t(1000))
        def wide(): return library.keep_wide(number(50_000))
        kept = narrow(), wide()
        profiler.flush(30)
        library.drop_new(pointer(kept[0]), number(100_000))
        library.drop_wide(pointer(kept[1]), number(50_000))
        assert library.fail() == 1
        print(json.dumps([live(), profiler.status()["heap"]["native_frees_unseen"]]))
        profiler.stop()
        """,
        library,
        **({"LD_PRELOAD": preload} if preload else {}),
    )
    left, unseen = json.loads(done.out)
    native = of_domain(done.profiles()[0].samples, "native")
    seen = by_function(native, "heap-space")
    assert seen["narrow"] == pytest.approx(100.8e6, rel=0.1)
    assert seen["wide"] == pytest.approx(51.6e6, rel=0.15)
    assert left < 2e6
    assert unseen == 0
