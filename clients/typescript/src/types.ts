/** The answers of pml. A newer server may add members. */

export type Verdict = "accepted" | "ignored" | "rejected";

export interface Reason {
  signal: string;
  value: number;
  weight: number;
  adds: number;
}

export interface Ranked {
  /** A tool, `capability:<id>` or `done`. */
  item: string;
  type?: "tool" | "capability" | "done";
  p: number;
  reasons?: Reason[];
  /** Of a capability: its readable name, which every question takes. */
  handle?: string;
  name?: string;
  tools?: string[];
}

export interface Prediction {
  ranked: Ranked[];
  threshold: number;
  decision: "emit" | "hold";
  model: string;
  based_on_seq: number;
  unknown?: string[];
  /** Of predictions that were subscribed to: for `feedback`. */
  prediction?: string;
  execution?: string;
  session?: string;
  cause?: string;
}

export interface Found {
  type: "tool" | "capability";
  id: string;
  handle?: string;
  registered?: boolean;
  name: string;
  description: string;
  score: number;
  signals: Record<string, number>;
  success_rate: number;
  usage_count: number;
  similar_intent?: string;
  server_id?: string;
  input_schema?: unknown;
  tools?: string[];
}

export interface Discovery {
  results: Found[];
  meta: Record<string, unknown>;
}

export interface PlanTask {
  tool: string;
  p: number;
  depends_on: number[];
  layer: number;
  repeated: boolean;
  arguments: { name: string; required: boolean; type?: string; fed_by?: number }[];
}

export interface Plan {
  /** For `feedback`. */
  id: string;
  tasks: PlanTask[];
  confidence: number;
  origin: string;
  rationale: string[];
}

export interface Suggestion {
  plan: Plan | null;
  sure: boolean;
  threshold: number;
  alternatives: Plan[];
  missing: { item: string; needed_by: string; callable: boolean }[];
  suggested_capabilities: string[];
  /** The readable names of capabilities, by `capability:<id>`. */
  handles?: Record<string, string>;
  based_on_seq: number;
}

export interface Explanation {
  item: string;
  p: number;
  rank: number;
  reasons: Reason[];
  score: number;
  clause?: string;
  taught: { signal: string; seq: number; execution: string; intent: string }[];
  intent: string;
  context: string[];
  now: Prediction;
}

export interface Published {
  accepted: number;
  duplicate: number;
  refused: number;
  results: { id?: string; status: string; seq?: number; error?: { reason: string; field: string; message: string } }[];
}

/** A whole run as one document. */
export interface RunDocument {
  intent: string;
  execution?: string;
  session?: string;
  agent?: string;
  parent?: string;
  source?: string;
  started?: string;
  steps: {
    tool: string;
    step?: string;
    depends_on?: string[];
    success?: boolean;
    duration_ms?: number;
    error_kind?: string;
    arguments?: unknown;
    result_summary?: string;
  }[];
  success?: boolean;
  error?: string;
  code?: string;
}

export interface CloudEvent {
  specversion: "1.0";
  id: string;
  source: string;
  type: string;
  time: string;
  data: Record<string, unknown>;
}
