"""Linear classifiers of texts: log-linear models, TF-IDF and perceptrons on n-grams. Imports no torch.

============  ====================================================================================
``symbols``   texts as rows of symbols: tokens and character n-grams
``features``  n-grams of symbols as feature ids, listed or hashed
``storage``   rows in compact arrays, on disk if there are many
``learner``   passes of gradient steps over the rows of the training texts
``data``      from training files to stored rows of features
``task``      the task and its training
``tfidf``     logistic regression on TF-IDF features, fitted to convergence
============  ====================================================================================
"""
