from vadd.cli import main

main()
