from vit_lightning.callbacks.event_files import copy_events, event_lengths, rewind_events

OLD, NEW = "events.out.tfevents.1.a", "events.out.tfevents.2.a"


def test_files_are_cut_and_later_ones_removed_and_others_left_alone(tmp_path):
    (tmp_path / OLD).write_bytes(b"12345")
    (tmp_path / "run.json").write_bytes(b"{}")
    lengths = event_lengths(tmp_path)
    assert lengths == {OLD: 5}
    (tmp_path / OLD).write_bytes(b"123456789")
    (tmp_path / NEW).write_bytes(b"later")
    rewind_events(tmp_path, lengths)
    assert (tmp_path / OLD).read_bytes() == b"12345"
    assert sorted(path.name for path in tmp_path.iterdir()) == [OLD, "run.json"]


def test_a_file_that_is_shorter_than_it_was_stays_so(tmp_path):
    (tmp_path / OLD).write_bytes(b"12")
    rewind_events(tmp_path, {OLD: 5})
    assert (tmp_path / OLD).read_bytes() == b"12"


def test_another_run_begins_with_a_copy(tmp_path):
    source, folder = tmp_path / "source", tmp_path / "folder"
    source.mkdir()
    folder.mkdir()
    (source / OLD).write_bytes(b"123456789")
    (source / NEW).write_bytes(b"later")
    copy_events(source, folder, {OLD: 5, "../elsewhere": 3})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {OLD: b"12345"}
    assert (source / OLD).read_bytes() == b"123456789"
