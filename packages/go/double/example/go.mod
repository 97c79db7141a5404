module keylatch/double/example

go 1.19

require (
	github.com/gomodule/redigo v1.8.9
	github.com/mna/redisc v1.4.0
	keylatch/double v0.0.0
)

replace keylatch/double => ../
