"""``vadd doctor``."""

from dataclasses import asdict

from vadd.cli.console import out_console
from vadd.cli.syntax import Doctor
from vadd.errors import UserError
from vadd.parallel import is_main
from vadd.training.doctor import examine
from vadd.words import plural


def doctor(options: Doctor) -> None:
    findings = []
    for finding in examine(options.device, options.shared):
        findings.append(finding)
        if is_main() or not finding.ok:
            out_console.out(f"{'ok     ' if finding.ok else 'PROBLEM'}  {finding.what}: {finding.said}")
    if is_main():
        options.write([asdict(finding) for finding in findings])
    if problems := sum(not finding.ok for finding in findings):
        raise UserError(f"{plural(problems, 'problem')} found, see above")
