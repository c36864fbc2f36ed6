// Command docker-logs sends lines with a log driver of Docker, as the daemon does for a container.
//
//	docker-logs DRIVER OPTION=VALUE… < LINES
//
// A line is the time as RFC 3339, a space, and the text that the container wrote.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/docker/docker/daemon/logger"
	_ "github.com/docker/docker/daemon/logger/fluentd"
	_ "github.com/docker/docker/daemon/logger/gelf"
	_ "github.com/docker/docker/daemon/logger/splunk"
	_ "github.com/docker/docker/daemon/logger/syslog"
)

func run(name string, options map[string]string) error {
	if err := logger.ValidateLogOpts(name, options); err != nil {
		return err
	}
	create, err := logger.GetLogDriver(name)
	if err != nil {
		return err
	}
	driver, err := create(logger.Info{
		Config:              options,
		ContainerID:         strings.Repeat("4bf92f3577b34da6", 4),
		ContainerName:       "/shop",
		ContainerImageID:    "sha256:" + strings.Repeat("a3ce929d0e0e4736", 4),
		ContainerImageName:  "shop:1.2",
		ContainerCreated:    time.Unix(1_767_000_000, 0),
		ContainerEntrypoint: "/shop",
		ContainerLabels:     map[string]string{"team": "checkout"},
		DaemonName:          "docker",
	})
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		stated, text, _ := strings.Cut(lines.Text(), " ")
		at, err := time.Parse(time.RFC3339Nano, stated)
		if err != nil {
			return err
		}
		message := logger.NewMessage()
		message.Line = append(message.Line, text...)
		message.Source = "stdout"
		message.Timestamp = at
		if err := driver.Log(message); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return driver.Close()
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: docker-logs DRIVER OPTION=VALUE…")
		os.Exit(2)
	}
	options := map[string]string{}
	for _, option := range os.Args[2:] {
		name, value, _ := strings.Cut(option, "=")
		options[name] = value
	}
	if err := run(os.Args[1], options); err != nil {
		log.Fatal(err)
	}
}
