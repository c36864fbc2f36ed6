package bucksaw_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"bucksaw"
)

func Example() {
	client, err := bucksaw.New(bucksaw.Config{Labels: map[string]string{"service.name": "shop"}})
	if err != nil {
		panic(err)
	}
	defer client.Close(context.Background())
	slog.SetDefault(slog.New(client.Handler(nil)))
	slog.Error("payment failed", "order", 4711)
}

func ExampleClient_Query() {
	client, err := bucksaw.New(bucksaw.Config{})
	if err != nil {
		panic(err)
	}
	defer client.Close(context.Background())
	var stats bucksaw.QueryStats
	options := bucksaw.QueryOptions{Expr: "@level=error", From: "15m", Stats: &stats}
	for record, err := range client.Query(context.Background(), options) {
		var partial *bucksaw.PartialError
		if errors.As(err, &partial) {
			fmt.Println("incomplete:", partial.Reasons)
		} else if err != nil {
			panic(err)
		} else {
			fmt.Println(record.Time, record.Text())
		}
	}
	fmt.Println(stats.Matched, "records")
}
