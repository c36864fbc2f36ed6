// Package bucksaw sends log records to Bucksaw, and reads them back.
//
// A [Client] collects records in batches and sends them in the background. Each batch has a key, so a retry stores no
// record twice. [Client.Handler] is a handler for log/slog. [Client.Query], [Client.Count] and [Client.Tail] read.
//
//	client, err := bucksaw.New(bucksaw.Config{Labels: map[string]string{"service.name": "shop"}})
//	if err != nil {
//		return err
//	}
//	defer client.Close(context.Background())
//	slog.SetDefault(slog.New(client.Handler(nil)))
//
// Go runs no function at the end of a process. Records that are not acknowledged are lost if the program ends without
// [Client.Close], also by os.Exit and log.Fatal.
package bucksaw
