"""One module per stage: it feeds a case's ``given`` to the real product and judges the ``expect``.

A driver ``tests/cases/drivers/<stage>.py`` has two functions and knows no case by its id::

    def drive(given: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]
    def judge(expect: dict[str, Any], actual: dict[str, Any]) -> list[Verdict]

``drive`` runs the product and returns what happened. In a combined stage the drivers run one after the other with
one ``context``; a driver finds there, under the stage names, what those before it returned, and may add what those
after it need. What a driver cannot do with ``given`` it says by raising ``CannotDrive``.

``judge`` returns at least one verdict for every key of ``expect``, nested ones too: a key it does not know is
``Verdict.unknown``, never left out. In a combined stage each driver is asked about the whole ``expect`` and, when
``expect`` has a section named like its stage, about that section by itself; a key counts as judged when one of the
answers judges it.
"""
