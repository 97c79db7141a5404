module keylatch/lock

go 1.19
