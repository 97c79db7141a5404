module keylatch/double

go 1.19
