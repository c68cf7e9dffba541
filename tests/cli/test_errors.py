import pytest

from vit_lightning.cli.errors import one_sentence, run_command


def fail(error: BaseException):
    def command(arguments: list[str]) -> int:
        raise error

    return command


def test_a_mistake_is_one_sentence_and_exit_code_2(capsys):
    assert run_command(fail(ValueError("n must be\n  at least 1")), []) == 2
    assert capsys.readouterr().err == "error: n must be at least 1\n"


def test_debug_shows_the_traceback():
    with pytest.raises(ValueError, match="wrong"):
        run_command(fail(ValueError("wrong")), ["--debug"])


def test_a_fault_of_ours_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        run_command(fail(ZeroDivisionError()), [])


def test_debug_is_not_handed_on():
    seen = []
    assert run_command(lambda arguments: seen.append(arguments) or 0, ["a", "--debug", "b"]) == 0
    assert seen == [["a", "b"]]


def test_the_reason_inside_a_list_of_alternatives():
    message = "Does not validate against any of\n  Errors:\n  - seq_len is wrong\n  - Expected None"
    assert one_sentence(ValueError(message)) == "seq_len is wrong"


def test_the_argument_is_named_with_every_reason_and_the_value():
    message = """Parser key "trainer.precision":
      Does not validate against any of the Union subtypes
      Subtypes: [typing.Literal[64, 32], typing.Literal['bf16'], <class 'NoneType'>]
      Errors:
        - Expected a <class 'int'>
        - Expected a typing.Literal['bf16']
        - Expected a <class 'NoneType'>
      Given value type: <class 'str'>
      Given value: foo"""
    assert one_sentence(ValueError(message)) == (
        "Parser key \"trainer.precision\": Expected a <class 'int'> "
        "or Expected a typing.Literal['bf16'], got foo"
    )
