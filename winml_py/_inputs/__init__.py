"""What commands and checks are given: input files, examples, models; and what is evaluated of them."""
