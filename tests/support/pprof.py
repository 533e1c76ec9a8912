"""A small pprof reader and writer in pure Python, the independent twin of the codec in C.

Tests compare what Pyrometer writes and reads with this file, so it shares nothing with it: it was
written from the format's description alone (github.com/google/pprof, proto/profile.proto). It
favours clearness over speed, and refuses what Go's `Profile.CheckValid` refuses.

    profile = parse(open("x.pprof", "rb").read())
    for sample in profile.samples:
        sample.stack            # [(function, file, line), ...], leaf first, inlined lines flattened
        sample.values["cpu-time"]
        sample.labels["thread name"]
"""

import gzip
import zlib
from dataclasses import dataclass, field


@dataclass
class Sample:
    stack: list[tuple[str, str, int]]  # leaf first
    values: dict[str, int]  # by sample type; types left out are 0 when written
    labels: dict[str, str | int] = field(default_factory=dict)


@dataclass
class Profile:
    types: list[tuple[str, str]]  # (type, unit) in the file's order
    samples: list[Sample] = field(default_factory=list)
    time_ns: int = 0
    duration_ns: int = 0
    period_type: tuple[str, str] = ("", "")
    period: int = 0
    default_type: str = ""
    comments: list[str] = field(default_factory=list)
    main_binary: str = ""
    label_units: dict[str, str] = field(default_factory=dict)  # units of numeric labels, by key

    def total(self, type_name: str) -> int:
        return sum(sample.values[type_name] for sample in self.samples)

    def by_function(self, type_name: str) -> dict[str, tuple[int, int]]:
        """Function name -> (self, total); recursion counts once in a total."""
        sums: dict[str, tuple[int, int]] = {}
        for sample in self.samples:
            value = sample.values[type_name]
            names = [name for name, _, _ in sample.stack]
            for name in set(names):
                own, total = sums.get(name, (0, 0))
                sums[name] = (own + (value if name == names[0] else 0), total + value)
        return sums


# ---------------------------------------------------------------------------------- reading


class Malformed(ValueError):
    """The bytes are not a valid pprof profile; the text says why."""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise Malformed("a varint is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise Malformed("a varint has more than ten bytes")


def _fields(data: bytes):
    """Yields (field number, value): an int for varints and fixed widths, bytes for the rest."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind in (1, 5):
            width = 8 if kind == 1 else 4
            if at + width > len(data):
                raise Malformed("a fixed-width field is cut off")
            value, at = int.from_bytes(data[at : at + width], "little"), at + width
        elif kind == 2:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise Malformed("a field is longer than its message")
            value, at = data[at : at + length], at + length
        else:
            raise Malformed(f"wire type {kind} is not used by pprof")
        yield number, value


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _numbers(value) -> list[int]:
    """A repeated integer field, packed or not."""
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        numbers.append(number)
    return numbers


def _record(data: bytes) -> dict[int, int | bytes]:
    """A message without repeated fields: the last value of each field wins."""
    return dict(_fields(data))


def _add(table: dict, what: str, identity: int, entry) -> None:
    if identity == 0:
        raise Malformed(f"a {what} has id 0")
    if identity in table:
        raise Malformed(f"two {what}s have id {identity}")
    table[identity] = entry


def parse(data: bytes) -> Profile:
    """Reads a profile, gzip or raw. Raises Malformed."""
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            raise Malformed(f"not a whole gzip file: {error}") from None

    strings: list[str] = []
    types, samples, comments = [], [], []
    mappings: dict[int, dict] = {}
    locations: dict[int, tuple[int, list[dict]]] = {}
    functions: dict[int, dict] = {}
    scalars: dict[int, int] = {}
    period_type: dict[int, int] = {}
    for number, value in _fields(data):
        if number == 1:
            types.append(_record(value))
        elif number == 2:
            samples.append(list(_fields(value)))
        elif number == 3:
            entry = _record(value)
            _add(mappings, "mapping", entry.get(1, 0), entry)
        elif number == 4:
            parts = list(_fields(value))
            lines = [_record(part) for key, part in parts if key == 4]
            single = {key: part for key, part in parts if key != 4}
            _add(locations, "location", single.get(1, 0), (single.get(2, 0), lines))
        elif number == 5:
            entry = _record(value)
            _add(functions, "function", entry.get(1, 0), entry)
        elif number == 6:
            strings.append(value.decode("utf-8"))
        elif number == 11:
            period_type = _record(value)
        elif number == 13:
            comments += _numbers(value)
        elif number in (7, 8, 9, 10, 12, 14, 15):
            scalars[number] = value

    if not strings or strings[0] != "":
        raise Malformed("string 0 is not the empty string")

    def text(index: int) -> str:
        if index >= len(strings):
            raise Malformed(f"string {index} does not exist")
        return strings[index]

    def lookup(table: dict, what: str, identity: int):
        if identity not in table:
            raise Malformed(f"{what} {identity} does not exist")
        return table[identity]

    profile = Profile(
        types=[(text(entry.get(1, 0)), text(entry.get(2, 0))) for entry in types],
        time_ns=_signed(scalars.get(9, 0)),
        duration_ns=_signed(scalars.get(10, 0)),
        period_type=(text(period_type.get(1, 0)), text(period_type.get(2, 0))),
        period=_signed(scalars.get(12, 0)),
        default_type=text(scalars.get(14, 0)),
        comments=[text(index) for index in comments],
    )
    if mappings:
        profile.main_binary = text(next(iter(mappings.values())).get(5, 0))

    frames: dict[int, list[tuple[str, str, int]]] = {}
    for identity, (mapping, lines) in locations.items():
        if mapping:
            lookup(mappings, "mapping", mapping)
        frames[identity] = []
        for line in lines:
            function = lookup(functions, "function", line.get(1, 0))
            frames[identity].append(
                (text(function.get(2, 0)), text(function.get(4, 0)), _signed(line.get(2, 0)))
            )

    for fields_of_sample in samples:
        stack, values, labels = [], [], {}
        for number, value in fields_of_sample:
            if number == 1:
                for identity in _numbers(value):
                    stack += lookup(frames, "location", identity)
            elif number == 2:
                values += [_signed(v) for v in _numbers(value)]
            elif number == 3:
                label = _record(value)
                key = text(label.get(1, 0))
                if key in labels:
                    raise Malformed(f"a sample has two labels {key!r}")
                if label.get(2, 0):
                    labels[key] = text(label[2])
                else:
                    labels[key] = _signed(label.get(3, 0))
                    if label.get(4, 0):
                        profile.label_units[key] = text(label[4])
        if len(values) != len(types):
            raise Malformed(f"a sample has {len(values)} values for {len(types)} types")
        named = {name: value for (name, _), value in zip(profile.types, values)}
        profile.samples.append(Sample(stack, named, labels))
    return profile


# ---------------------------------------------------------------------------------- writing


def _put_varint(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _int_field(number: int, value: int) -> bytes:
    return _put_varint(number << 3) + _put_varint(value) if value else b""


def _bytes_field(number: int, value: bytes) -> bytes:
    return _put_varint(number << 3 | 2) + _put_varint(len(value)) + value


def _packed_field(number: int, values) -> bytes:
    return _bytes_field(number, b"".join(_put_varint(value) for value in values))


class _Interned(dict):
    """Things in order of first use, numbered from `first`."""

    def __init__(self, first: int):
        super().__init__()
        self.first = first

    def number(self, thing) -> int:
        return self.setdefault(thing, len(self) + self.first)


def write(profile: Profile, compressed: bool = True) -> bytes:
    """The bytes of a profile file."""
    strings, functions, locations = _Interned(0), _Interned(1), _Interned(1)
    strings.number("")

    def value_type(pair: tuple[str, str]) -> bytes:
        return _int_field(1, strings.number(pair[0])) + _int_field(2, strings.number(pair[1]))

    out = bytearray()
    for pair in profile.types:
        out += _bytes_field(1, value_type(pair))
    for sample in profile.samples:
        ids = []
        for name, file, line in sample.stack:
            ids.append(locations.number((functions.number((name, file)), line)))
        message = _packed_field(1, ids)
        message += _packed_field(2, [sample.values.get(name, 0) for name, _ in profile.types])
        for key, value in sample.labels.items():
            label = _int_field(1, strings.number(key))
            if isinstance(value, str):
                label += _int_field(2, strings.number(value))
            else:
                label += _int_field(3, value)
                label += _int_field(4, strings.number(profile.label_units.get(key, "")))
            message += _bytes_field(3, label)
        out += _bytes_field(2, message)
    if profile.main_binary:
        binary = strings.number(profile.main_binary)
        flags = b"".join(_int_field(number, 1) for number in (7, 8, 9))
        out += _bytes_field(3, _int_field(1, 1) + _int_field(5, binary) + flags)
    for (function, line), identity in locations.items():
        message = _int_field(1, identity) + _int_field(2, 1 if profile.main_binary else 0)
        message += _bytes_field(4, _int_field(1, function) + _int_field(2, line))
        out += _bytes_field(4, message)
    for (name, file), identity in functions.items():
        # No system name: where it equals the name, Go's pprof takes "<module>" for C++ and cuts it.
        message = _int_field(1, identity) + _int_field(2, strings.number(name))
        message += _int_field(4, strings.number(file))
        out += _bytes_field(5, message)
    out += _int_field(9, profile.time_ns) + _int_field(10, profile.duration_ns)
    out += _bytes_field(11, value_type(profile.period_type)) + _int_field(12, profile.period)
    if profile.comments:
        out += _packed_field(13, [strings.number(comment) for comment in profile.comments])
    out += _int_field(14, strings.number(profile.default_type))
    for string in strings:
        out += _bytes_field(6, string.encode("utf-8"))
    return gzip.compress(bytes(out), mtime=0) if compressed else bytes(out)
