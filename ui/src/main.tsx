import "./styles/base.css";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createRoot } from "react-dom/client";
import { App } from "./components/App.tsx";
import { loadSession } from "./state/access.ts";

const client = new QueryClient({ defaultOptions: { queries: { retry: 1, refetchOnWindowFocus: false } } });

loadSession();
const page = document.getElementById("page");
if (page !== null) {
  createRoot(page).render(
    <QueryClientProvider client={client}>
      <App />
    </QueryClientProvider>,
  );
}
