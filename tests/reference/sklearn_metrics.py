"""sklearn_metrics.py: what scikit-learn says of a model's outputs, by the names of proto/metric_kinds.h. A metric that
is not defined for the case is left out."""
import math
import warnings

import numpy
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve

BINS = 15


def softmax(logits):
    """In the order of the C library's loop, so that equal probabilities are equal in both programs."""
    powers = numpy.vectorize(math.exp)(logits - logits.max(axis=1, keepdims=True))
    return powers / numpy.add.accumulate(powers, axis=1)[:, -1:]


def calibration_error(truth, predicted, probabilities):
    """The expected calibration error: calibration_curve()'s bins, weighted by their samples."""
    confidence = probabilities.max(axis=1)
    right, sure = calibration_curve(truth == predicted, confidence, n_bins=BINS)
    bins = numpy.searchsorted(numpy.linspace(0, 1, BINS + 1)[1:-1], confidence)
    counts = numpy.bincount(bins, minlength=BINS)
    return float((numpy.abs(right - sure) * counts[counts > 0]).sum() / len(truth))


def class_metrics(logits, truth):
    """Of float64 logits that float32 holds exactly, [n, classes], and labels, [n]."""
    count, classes = logits.shape
    predicted, probabilities = logits.argmax(axis=1), softmax(logits)
    everything = list(range(classes))
    onehot = (truth[:, None] == numpy.array(everything)).astype(int)
    positive, usual = probabilities[:, 1], "binary" if classes == 2 else "macro"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes without samples, which are the point here
        found = {"mcc": sk.matthews_corrcoef(truth, predicted),
                 "balanced_accuracy": sk.balanced_accuracy_score(truth, predicted),
                 "log_loss": sk.log_loss(truth, probabilities, labels=everything),
                 "calibration_error": calibration_error(truth, predicted, probabilities)}
        for name, score in (("precision", sk.precision_score), ("recall", sk.recall_score), ("f1", sk.f1_score)):
            found[name] = score(truth, predicted, average=usual, zero_division=0)
            for average in ("macro", "micro", "weighted"):
                found[f"{name}_{average}"] = score(truth, predicted, average=average, zero_division=0)
        if classes == 2:
            found["average_precision"] = sk.average_precision_score(truth, positive)
        else:
            found["average_precision"] = sk.average_precision_score(onehot, probabilities, average="macro")
        if len(set(truth)) == classes:
            found["auc"] = sk.roc_auc_score(truth, positive if classes == 2 else probabilities, multi_class="ovr")
        for k in (3, 5):
            found[f"top_{k}_accuracy"] = 1.0 if k >= classes else \
                sk.top_k_accuracy_score(truth, logits, k=k, labels=everything)
    return {name: float(value) for name, value in found.items()}


def label_metrics(logits, targets):
    """Of logits and labels that are 0 or 1, [n, labels] each."""
    predicted, probabilities = (logits > 0).astype(int), 1 / (1 + numpy.vectorize(math.exp)(-logits))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {"subset_accuracy": (predicted == targets).all(axis=1).mean()}
        for name, score in (("precision", sk.precision_score), ("recall", sk.recall_score), ("f1", sk.f1_score)):
            each = [score(targets[:, k], predicted[:, k], zero_division=0) for k in range(targets.shape[1])]
            found[name] = found[f"{name}_macro"] = numpy.mean(each)
            found[f"{name}_micro"] = score(targets.ravel(), predicted.ravel(), zero_division=0)
            found[f"{name}_weighted"] = numpy.average(each, weights=targets.sum(axis=0)) if targets.any() else 0
            if targets.shape[1] > 1:
                for average in ("macro", "micro", "weighted"):
                    found[f"{name}_{average}"] = score(targets, predicted, average=average, zero_division=0)
        found["average_precision"] = numpy.mean([sk.average_precision_score(targets[:, k], probabilities[:, k])
                                                 for k in range(targets.shape[1])])
        if all(0 < targets[:, k].sum() < len(targets) for k in range(targets.shape[1])):
            found["auc"] = numpy.mean([sk.roc_auc_score(targets[:, k], probabilities[:, k])
                                       for k in range(targets.shape[1])])
            if targets.shape[1] > 1:
                found["auc"] = sk.roc_auc_score(targets, probabilities, average="macro")
    return {name: float(value) for name, value in found.items()}


def value_metrics(outputs, targets):
    """Of [n, values] each."""
    found = {"mse": sk.mean_squared_error(targets, outputs), "mae": sk.mean_absolute_error(targets, outputs),
             "rmse": sk.root_mean_squared_error(targets, outputs)}
    if len(targets) > 1:
        found["r2"] = sk.r2_score(targets, outputs)
    return {name: float(value) for name, value in found.items()}
