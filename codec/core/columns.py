"""Stored records as columns, in the layout of Arrow's arrays: numbers one after another, texts with their
ends, codes of texts of which there are few.

`rmqcli.codec.scan.arrow` makes arrays of them without copying. Texts become UTF-8: U+FFFD replaces what is
not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_be, write_i64_le
from librt.vecs import append, vec
from mypy_extensions import i32, i64

from rmqcli.codec.compression import COMPRESSED, decompress
from rmqcli.codec.core.property_pairs import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from rmqcli.codec.core.record_reader import RecordReader
from rmqcli.codec.core.text import is_same, next_mark
from rmqcli.codec.core.walk import Walk
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.layout import Buffer
from rmqcli.codec.property_names import PropertyName

_NAME_END: Final[i64] = ord(NAME_VALUE_SEPARATOR)
_PAIR_END: Final[i64] = ord(PROPERTY_SEPARATOR)
_BLANK: Final[i64] = ord(" ")
_COMPRESSED: Final[i64] = COMPRESSED
_TAGS: Final = f"{PropertyName.TAGS}{NAME_VALUE_SEPARATOR}".encode()
_KEYS: Final = f"{PropertyName.KEYS}{NAME_VALUE_SEPARATOR}".encode()
_UNIQ_KEY: Final = f"{PropertyName.UNIQ_KEY}{NAME_VALUE_SEPARATOR}".encode()
# Not a literal, because mypyc makes a Python object of a literal with more than 63 bits.
_HIGHEST: Final[i64] = int.from_bytes(b"\x80" * 8, "big", signed=True)
"""The highest bit of each of eight bytes."""
_MOST_MS: Final[i64] = (2**63 - 1) // 1000
_LONGEST_INSIDE: Final[i64] = 12
"""The number of bytes that a view itself can hold."""
PLACE_BITS: Final[i64] = 30
_PLACES: Final[i64] = (1 << 30) - 1
"""A place in a view is an int32, so that a file is several buffers, which begin 2**30 bytes apart."""
_MOST_TEXT: Final[i64] = 1 << 30
_GATHERED: Final[i64] = 1 << 16
"""The number of bytes of short ranges that are copied together."""
_LONG: Final[i64] = 64
"""The number of bytes from which copying a slice takes less time than copying words."""


def _is_ascii(data: bytes, begin: i64, end: i64) -> bool:
    """Return True if no byte in [begin, end) is above 127."""
    at: i64 = begin
    while at + 8 <= end:
        if read_i64_le(data, at) & _HIGHEST:
            return False
        at += 8
    while at < end:
        if data[at] > 127:
            return False
        at += 1
    return True


def _digits(number: i64) -> i64:
    """Return the eight hexadecimal digits of 32 bits as the bytes of an integer."""
    spread: i64 = (number | number << 16) & 0x0000FFFF0000FFFF
    spread = (spread | spread << 8) & 0x00FF00FF00FF00FF
    spread = (spread | spread << 4) & 0x0F0F0F0F0F0F0F0F
    letters: i64 = (spread + 0x0606060606060606) >> 4 & 0x0101010101010101
    # 7 bytes lie between `9` and `A`.
    return spread + 0x3030303030303030 + letters * 7


class Texts:
    """Texts one after another: `ends` has 0 and the position after each text, as int32."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self.data = BytesWriter()
        self.ends = BytesWriter()
        write_i32_le(self.ends, 0)

    def clear(self) -> None:
        """Remove what was added, and keep the memory."""
        self.count = 0
        self.data.truncate(0)
        self.ends.truncate(4)

    def add(self, data: bytes, begin: i64, end: i64) -> None:
        """Add the text in [begin, end) of some bytes."""
        writer = self.data
        if end - begin > _LONG:
            writer.write(data[begin:end])
        else:
            while begin + 8 <= end:
                write_i64_le(writer, read_i64_le(data, begin))
                begin += 8
            if begin + 4 <= end:
                write_i32_le(writer, read_i32_le(data, begin))
                begin += 4
            while begin < end:
                writer.append(data[begin])
                begin += 1
        write_i32_le(self.ends, i32(i64(len(writer))))
        self.count += 1

    def cut(self, count: i64, end: i64) -> None:
        """Keep only the first texts, which end at a position."""
        self.count = count
        self.data.truncate(end)
        self.ends.truncate(4 * count + 4)

    def close(self) -> None:
        """End the text that was written to `data`."""
        write_i32_le(self.ends, i32(i64(len(self.data))))
        self.count += 1

    def check(self) -> None:
        """Raise CorruptionError if a position after the next text, of 1 GiB or less, may not fit into int32."""
        if i64(len(self.data)) >= _MOST_TEXT:
            raise CorruptionError("the texts of some records take more than 1 GiB")


class Codes:
    """The number of each text among the distinct ones, as int32, -1 for none. `texts` are in the order of their
    first use.
    """

    def __init__(self) -> None:
        self.numbers = BytesWriter()
        self.missing: i64 = 0
        self.texts: list[bytes] = []
        self._known: dict[bytes, int] = {}
        self._last = b""
        self._code: i64 = -1

    def clear(self) -> None:
        """Remove what was added, and keep the memory."""
        self.numbers.truncate(0)
        self.missing = 0
        self.texts = []
        self._known = {}
        self._code = -1

    def code(self, data: bytes, begin: i64, end: i64) -> i64:
        """Return the number of the text in [begin, end) of some bytes."""
        text = data[begin:end]
        code: i64 = self._known.get(text, -1)
        if code < 0:
            code = len(self.texts)
            self._known[text] = code
            self.texts.append(text)
        self._last = text
        self._code = code
        return code

    def add(self, data: bytes, begin: i64, end: i64) -> i64:
        """Add the number of the text in [begin, end) of some bytes, and return it."""
        code: i64 = self._code
        if code < 0 or not is_same(data, begin, end, self._last):
            code = self.code(data, begin, end)
        write_i32_le(self.numbers, i32(code))
        return code

    def add_none(self) -> None:
        """Add the number of no text."""
        write_i32_le(self.numbers, -1)
        self.missing += 1


class Columns:
    """The columns of some records of one buffer, named as in an export. `count` is the number of records.

    Numbers are int32 or int64, times are in microseconds. `keys` and `values` are of lists with `key_ends`
    and `pair_ends`; `names` has the name of each value. Of pairs with the same name in one text, only the
    last is kept.

    Bodies are in `bodies`. If they are `in_place`, `bodies` has only those that were compressed, and `views`
    has 16 bytes for each: its length, its first 4 bytes, the number of a buffer and its place there (int32).
    Buffer n begins at byte n * 2**30 of the file, and the one after the last of these `buffers` is `bodies`.
    A body of at most 12 bytes is in its view instead.
    """

    def __init__(self, buffer: Buffer, in_place: bool, decompresses: bool) -> None:
        """Begin without records."""
        self._buffer = buffer
        self._in_place = in_place
        self._decompresses = decompresses
        self.count: i64 = 0
        self.body_size: i64 = 0
        self.buffers: i64 = (i64(len(buffer)) >> PLACE_BITS) + 1
        self.topic = Codes()
        self.queue_id = BytesWriter()
        self.queue_offset = BytesWriter()
        self.commit_log_offset = BytesWriter()
        self.msg_id = Texts()
        self.offset_msg_id = Texts()
        self.tags = Codes()
        self.keys = Texts()
        self.key_ends = BytesWriter()
        self.names = Codes()
        self.values = Texts()
        self.pair_ends = BytesWriter()
        self.born_timestamp = BytesWriter()
        self.born_host = Codes()
        self.store_timestamp = BytesWriter()
        self.store_host = Codes()
        self.flag = BytesWriter()
        self.sys_flag = BytesWriter()
        self.reconsume_times = BytesWriter()
        self.prepared_transaction_offset = BytesWriter()
        self.store_size = BytesWriter()
        self.body_crc = BytesWriter()
        self.bodies = Texts()
        self.views = BytesWriter()
        self._numbers = [
            self.queue_id,
            self.queue_offset,
            self.commit_log_offset,
            self.born_timestamp,
            self.store_timestamp,
            self.flag,
            self.sys_flag,
            self.reconsume_times,
            self.prepared_transaction_offset,
            self.store_size,
            self.body_crc,
            self.views,
        ]
        write_i32_le(self.key_ends, 0)
        write_i32_le(self.pair_ends, 0)
        # Each name, followed by the separator; the last record that has it; and the names in the texts before, in
        # their order.
        self._names: list[bytes] = []
        self._records = vec[i64]()
        self._order = vec[i64]()
        # The codes of some names, and the positions of their values in the text.
        self._of_tags: i64 = -1
        self._of_keys: i64 = -1
        self._of_unique: i64 = -1
        self._tags: i64 = -1
        self._tags_end: i64 = -1
        self._keys: i64 = -1
        self._keys_end: i64 = -1
        self._unique: i64 = -1
        self._unique_end: i64 = -1
        # The hexadecimal digits of each store host; of the record: those of its store host, and its commit-log offset.
        self._hosts: list[bytes] = []
        self._host = b""
        self._offset: i64 = 0
        # A number for each text that is read.
        self._text: i64 = 0

    def clear(self, in_place: bool) -> None:
        """Remove what was added, and keep the memory."""
        self._in_place = in_place
        self.count = self.body_size = 0
        for texts in (self.msg_id, self.offset_msg_id, self.keys, self.values, self.bodies):
            texts.clear()
        for codes in (self.topic, self.tags, self.names, self.born_host, self.store_host):
            codes.clear()
        for numbers in self._numbers:
            numbers.truncate(0)
        self.key_ends.truncate(4)
        self.pair_ends.truncate(4)
        self._names = []
        self._records = vec[i64]()
        self._order = vec[i64]()
        self._of_tags = self._of_keys = self._of_unique = -1
        self._hosts = []

    def add_all(self, walk: Walk, most_records: i64, most_bytes: i64) -> bool:
        """Continue a walk until there are as many records, or bytes of the file and of decompressed bodies; the
        last record may exceed these. Return False if the walk ended.

        Raises the errors of `Walk.next`, and CorruptionError for a body that cannot be decompressed; such a
        record is not added, and the walk is at its position.
        """
        begin: i64 = walk.position + walk.size - i64(len(self.bodies.data))
        while (
            self.count < most_records
            and walk.position + walk.size + i64(len(self.bodies.data)) < begin + most_bytes
        ):
            if not walk.next():
                return False
            self._add(walk)
        return True

    def add_runs(self, walk: Walk, begins: Sequence[int], ends: Sequence[int]) -> None:
        """Add the records that fill some ranges of the buffer, [begin, end).

        Raises the errors of `add_all`, and CorruptionError if a range is outside of the buffer, or ends with
        anything but a record.
        """
        first: i64 = 0
        while first < len(begins):
            # Short ranges are copied together: waiting for memory, the processor then goes on with the next one.
            parts: list[Buffer] = []
            size: i64 = 0
            last: i64 = first
            while last < len(begins) and size < _GATHERED:
                begin: i64 = begins[last]
                end: i64 = ends[last]
                if not 0 <= begin <= end <= len(self._buffer):
                    raise CorruptionError("a record is cut short", begin)
                size += end - begin
                if size <= _GATHERED:
                    parts.append(self._buffer[begin:end])
                last += 1
            self._add_gathered(walk, begins[first:last], ends[first:last], b"".join(parts))
            first = last

    def _add_gathered(self, walk: Walk, begins: Sequence[int], ends: Sequence[int], data: bytes) -> None:
        """Add the records in some ranges; `data` has their bytes, except for those of the last if it is long."""
        at: i64 = 0
        for begin, end in zip(begins, ends, strict=True):
            size: i64 = end - begin
            if at + size <= len(data):
                walk.move(begin, end, data, at)
            else:
                walk.move(begin, end)
            at += size
            while walk.next():
                self._add(walk)
            if walk.position != end:
                raise CorruptionError("no record", walk.position)

    def _add(self, walk: Walk) -> None:
        record = walk.record
        self.values.check()
        self.offset_msg_id.check()
        self.bodies.check()
        # Before all other columns, because it may raise: the record is then in none of them.
        self._add_body(walk, record)
        write_i32_le(self.queue_id, i32(record.queue_id))
        write_i64_le(self.queue_offset, record.queue_offset)
        write_i64_le(self.commit_log_offset, record.physical_offset)
        # Clamped, because the microseconds of a damaged time would leave 64 bits.
        write_i64_le(self.born_timestamp, min(max(record.born_timestamp, -_MOST_MS), _MOST_MS) * 1000)
        write_i64_le(self.store_timestamp, min(max(record.store_timestamp, -_MOST_MS), _MOST_MS) * 1000)
        write_i32_le(self.flag, i32(record.flag))
        write_i32_le(self.sys_flag, i32(record.sys_flag))
        write_i32_le(self.reconsume_times, i32(record.reconsume_times))
        write_i64_le(self.prepared_transaction_offset, record.prepared_transaction_offset)
        write_i32_le(self.store_size, i32(walk.size))
        write_i32_le(self.body_crc, i32(record.crc))
        data = walk.data
        self.topic.add(data, record.topic_at, record.topic_end)
        self.born_host.add(data, record.born_host_at, record.born_host_end)
        host: i64 = self.store_host.add(data, record.store_host_at, record.store_host_end)
        if host == i64(len(self._hosts)):
            self._hosts.append(self.store_host.texts[host].hex().upper().encode())
        self._host = self._hosts[host]
        self._offset = record.physical_offset
        self._add_id(self.offset_msg_id)
        if _is_ascii(data, record.properties_at, record.end):
            self._add_properties(data, record.properties_at, record.end)
        else:
            text = data[record.properties_at : record.end].decode("utf-8", "replace").encode()
            self._add_properties(text, 0, len(text))
        self.count += 1

    def _add_id(self, texts: Texts) -> None:
        """Add the offset message id of the record."""
        texts.data.write(self._host)
        write_i64_be(texts.data, _digits(self._offset >> 32 & 0xFFFFFFFF))
        write_i64_be(texts.data, _digits(self._offset & 0xFFFFFFFF))
        texts.close()

    # --- bodies

    def _add_body(self, walk: Walk, record: RecordReader) -> None:
        begin: i64 = walk.position + record.body_at - record.at
        # The body is missing from the data of a long record (see `RecordReader.find`).
        missing: i64 = walk.size - (record.end - record.at)
        size: i64 = record.body_end - record.body_at + missing
        if size > _MOST_TEXT:
            raise CorruptionError(f"a body of {size} bytes", walk.position)
        if self._decompresses and record.sys_flag & _COMPRESSED:
            self._add_plain(self._decompressed(begin, begin + size, record.sys_flag, walk.position))
        elif self._in_place:
            head = walk.data
            at: i64 = record.body_at
            if missing:
                head = bytes(self._buffer[begin : begin + _LONGEST_INSIDE])
                at = 0
            self._add_view(head, at, size, begin >> PLACE_BITS, begin & _PLACES)
        elif missing:
            self.bodies.add(bytes(self._buffer[begin : begin + size]), 0, size)
        else:
            self.bodies.add(walk.data, record.body_at, record.body_end)
        self.body_size += size

    def _decompressed(self, begin: i64, end: i64, sys_flag: i64, position: i64) -> bytes:
        try:
            return decompress(bytes(self._buffer[begin:end]), sys_flag)
        except CorruptionError as error:
            raise CorruptionError(str(error), position) from None

    def _add_plain(self, body: bytes) -> None:
        place: i64 = len(self.bodies.data)
        size: i64 = len(body)
        self.bodies.add(body, 0, size)
        if self._in_place:
            self._add_view(body, 0, size, self.buffers, place)

    def _add_view(self, data: bytes, at: i64, size: i64, buffer: i64, place: i64) -> None:
        """Add the view of a body that is at a place in a buffer, and begins at a position of `data`."""
        views = self.views
        write_i32_le(views, i32(size))
        if size > _LONGEST_INSIDE:
            write_i32_le(views, read_i32_le(data, at))
            write_i32_le(views, i32(buffer))
            write_i32_le(views, i32(place))
            return
        end: i64 = at + size
        while at < end:
            views.append(data[at])
            at += 1
        while size < _LONGEST_INSIDE:
            views.append(0)
            size += 1

    # --- properties

    def _add_properties(self, text: bytes, begin: i64, end: i64) -> None:
        numbers, values = self.names.numbers, self.values
        names_end: i64 = len(numbers)
        values_end: i64 = len(values.data)
        count: i64 = values.count
        if not self._add_pairs(text, begin, end):
            # A name comes twice, which is rare. What was added of this text is taken back.
            numbers.truncate(names_end)
            values.cut(count, values_end)
            text = _last_pairs(text[begin:end])
            # A new number, because the failed attempt has marked its names with the old one.
            self._text += 1
            self._add_pairs(text, 0, len(text))
        write_i32_le(self.pair_ends, i32(values.count))
        if self._tags < 0:
            self.tags.add_none()
        else:
            self.tags.add(text, self._tags, self._tags_end)
        if self._keys >= 0:
            self._add_keys(text, self._keys, self._keys_end)
        write_i32_le(self.key_ends, i32(self.keys.count))
        if self._unique < 0:
            self._add_id(self.msg_id)
        else:
            self.msg_id.add(text, self._unique, self._unique_end)
        self._text += 1

    def _add_keys(self, text: bytes, at: i64, end: i64) -> None:
        while at < end:
            begin: i64 = at
            while at < end and text[at] != _BLANK:
                at += 1
            if at > begin:
                self.keys.add(text, begin, at)
            at += 1

    def _add_pairs(self, text: bytes, at: i64, end: i64) -> bool:
        """Add the pairs of a text by the rules of `rmqcli.codec.properties`; return False at a name that comes twice."""
        self._tags = self._keys = self._unique = -1
        pair: i64 = 0
        while at < end:
            begin: i64 = at
            code: i64 = self._expected(text, begin, end, pair)
            value: i64 = 0
            if code >= 0:
                value = begin + i64(len(self._names[code]))
                at = next_mark(text, value, end)
            else:
                at = next_mark(text, begin, end)
                while at < end and text[at] != _PAIR_END and text[at] != _NAME_END:
                    at = next_mark(text, at + 1, end)
                if begin < at < end and text[at] == _NAME_END:
                    value = at + 1
                    at = next_mark(text, value, end)
            while at < end and text[at] != _PAIR_END:
                at = next_mark(text, at + 1, end)
            if 0 < value < at:
                if code < 0:
                    code = self._learnt(text[begin:value], pair)
                if self._records[code] == self._text:
                    return False
                self._records[code] = self._text
                self._note(code, value, at)
                write_i32_le(self.names.numbers, i32(code))
                self.values.add(text, value, at)
                pair += 1
            at += 1
        return True

    def _expected(self, text: bytes, begin: i64, end: i64, pair: i64) -> i64:
        """Return the code of the name of a pair if the text before has it at the same place, else -1."""
        if pair < i64(len(self._order)):
            code: i64 = self._order[pair]
            name = self._names[code]
            name_end: i64 = begin + i64(len(name))
            if name_end <= end and is_same(text, begin, name_end, name):
                return code
        return -1

    def _learnt(self, name: bytes, pair: i64) -> i64:
        """Return the code of the name of a pair, given with the separator, and expect it there in the next text."""
        code: i64 = self.names.code(name, 0, i64(len(name)) - 1)
        if code == i64(len(self._records)):
            self._records = append(self._records, -1)
            self._names.append(name)
            if name == _TAGS:
                self._of_tags = code
            elif name == _KEYS:
                self._of_keys = code
            elif name == _UNIQ_KEY:
                self._of_unique = code
        if pair < i64(len(self._order)):
            self._order[pair] = code
        else:
            self._order = append(self._order, code)
        return code

    def _note(self, code: i64, begin: i64, end: i64) -> None:
        if code == self._of_tags:
            self._tags = begin
            self._tags_end = end
        elif code == self._of_keys:
            self._keys = begin
            self._keys_end = end
        elif code == self._of_unique:
            self._unique = begin
            self._unique_end = end


def _last_pairs(text: bytes) -> bytes:
    """Return a text without the pairs that are overridden by later ones with the same name."""
    last: dict[bytes, bytes] = {}
    for pair in text.split(b"\x02"):
        name, _, value = pair.partition(b"\x01")
        if name and value:
            # Removed first: otherwise the last pair would stand in the place of the first.
            last.pop(name, None)
            last[name] = pair
    return b"\x02".join(last.values())
