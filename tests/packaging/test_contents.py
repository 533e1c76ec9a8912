"""What is in the archives, what the binaries need of a machine, and what they show to others."""

import re
import sys

from conftest import ROOT, clean, names_in, succeed

LIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"}
LOADER = re.compile(r"ld-linux-[a-z0-9-]+\.so\.\d")

# Instructions beyond the baseline of x86-64, as objdump names them: AVX by its v and its wide
# registers, BMI and its kin by name. tzcnt and lzcnt are left out: on older machines they are bsf
# and bsr, and compilers use them so.
WIDE = re.compile(r"%[yz]mm\d|\tv[a-z0-9]+ .*%xmm")
NEWER = re.compile(
    r"\t(andn|bextr|bls[ir]|blsmsk|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx|popcnt|movbe)\s"
)
# Newer: those of zstd and libdeflate that they choose at run time, after they have asked the
# processor.
CHOSEN_AT_RUN_TIME = re.compile(
    r"bmi2|^HUF_decompress4X\w*_fast(_(asm|c)_loop)?$|^(adler32|crc32)_x86_\w*(avx|vpclmul)"
)


def disassembled(binary):
    """(function, instruction) for each line; the binary must have its symbols."""
    function = ""
    for line in succeed("objdump", "--disassemble", "--no-show-raw-insn", binary).splitlines():
        if line.endswith(">:"):
            function = line.rpartition("<")[2][:-2]
        elif line.startswith(" "):
            yield function, line


def needed(binary):
    listing = succeed("readelf", "--dynamic", "--wide", binary)
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", listing))


def test_the_source_archive_has_what_a_build_needs_and_no_more(sdist):
    names = names_in(sdist)
    for name in "CMakeLists.txt", "pyproject.toml", "LICENSE", "README.md", "PKG-INFO":
        assert name in names
    for folder in "src", "python/_native", "python/pyrometer", "ui/dist":
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert path.relative_to(ROOT).as_posix() in names
    top = {name.partition("/")[0] for name in names}
    assert top == {
        "CMakeLists.txt",
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "pyproject.toml",
        "python",
        "src",
        "ui",
    }


def test_the_wheel_has_the_package_and_no_more(package):
    names = names_in(package.wheel)
    suffix = re.escape(f".cpython-3{sys.version_info[1]}-")
    natives = [name for name in names if re.fullmatch(rf"pyrometer/_native{suffix}.*\.so", name)]
    assert len(natives) == 1
    python = ROOT / "python"
    ours = {path.relative_to(python).as_posix() for path in python.rglob("pyrometer/**/*.py*")}
    expected = {name for name in ours if "__pycache__" not in name}
    expected |= {"pyrometer/py.typed", "pyrometer/_bin/pyrometer", natives[0]}
    expected.add("pyrometer_takeover.pth")
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert not [name for name in names if name.endswith(".pyc")]


def test_the_metadata_is_whole_and_versions_agree(package):
    script = (
        "import importlib.metadata as m, pyrometer as p; d = m.metadata('pyrometer');"
        "print(d['Version'], p.__version__, d.get_all('Requires-Dist'), d['Requires-Python'],"
        "len(d.get_payload() or d['Description'] or '') > 500, sep='|')"
    )
    version, own, requires, python, has_readme = (
        succeed(package.python, "-c", script).strip().split("|")
    )
    assert version == own == succeed(package.program, "--version").split()[-1]
    assert f"project(pyrometer VERSION {version} " in (ROOT / "CMakeLists.txt").read_text("utf-8")
    assert python == "<3.16,>=3.11"
    assert has_readme == "True"
    # BR-160: what is not there cannot clash with the program's own.
    assert requires == "None"


def test_br_162_nothing_but_libc_is_needed(package):
    for binary in package.binaries:
        foreign = {name for name in needed(binary) - LIBC if not LOADER.fullmatch(name)}
        assert not foreign, f"{binary.name} needs {foreign}"
        # And what those need in turn, as the loader resolves it.
        assert "not found" not in succeed("ldd", binary)
        dynamic = succeed("readelf", "--dynamic", "--wide", binary)
        assert not re.search(r"\((RPATH|RUNPATH|TEXTREL)\)", dynamic)


def test_only_the_entry_point_is_exported(package):
    symbols = succeed("nm", "--dynamic", "--defined-only", package.binaries[0]).split("\n")
    names = [line.split()[-1] for line in symbols if line]
    assert names == ["PyInit__native"]


def test_every_symbol_it_wants_is_there(package):
    """At import all symbols are bound, so a missing one shows at once, not in the middle."""
    environment = clean(LD_BIND_NOW="1")
    succeed(package.python, "-c", "import pyrometer._native", env=environment)


def test_br_167_only_instructions_that_every_machine_has(package):
    (native,) = package.build.glob("_native.*.so")
    for binary in native, package.build / "pyrometer":
        functions = set()
        for function, line in disassembled(binary):
            functions.add(function)
            if WIDE.search(line) or NEWER.search(line):
                assert CHOSEN_AT_RUN_TIME.search(function), f"{binary.name}, {function}: {line}"
        # The search has seen our functions and those of the libraries.
        assert {"pyr_memory_new", "deflate", "ZSTD_compressStream2"} <= functions
    flags = (package.build / "compile_commands.json").read_text("utf-8")
    assert "-Werror" in flags  # and so BR-163: no warning with this system's compiler
    assert not re.search(r"-m(arch|tune|avx|bmi|sse4)", flags)
